package telemetry_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge/command"
	"github.com/isolate-run/isolate/internal/otlptest"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/telemetry"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
)

// lab is a Runtime of an embedder with providers of its own.
type lab struct {
	*isolate.Runtime
	*otlptest.Collector
	audit *audit.Log
	// done ends all: what there is to send has been sent.
	done func()
}

func newLab(t *testing.T, o isolate.Options) *lab {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	l := &lab{Collector: otlptest.New(t), audit: o.Audit}
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(l.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	logs, err := otlploghttp.New(t.Context(), otlploghttp.WithEndpointURL(l.URL+"/v1/logs"))
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(l.URL+"/v1/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	records := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)))
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(numbers)))
	if o.Telemetry, err = telemetry.New(telemetry.Options{Traces: traces, Logs: records, Metrics: meter}); err != nil {
		t.Fatal(err)
	}
	if l.Runtime, err = isolate.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l.done = func() {
		t.Helper()
		err := errors.Join(meter.Shutdown(context.Background()), l.Runtime.Close(), traces.Shutdown(context.Background()), records.Shutdown(context.Background()))
		if err != nil {
			t.Error(err)
		}
	}
	return l
}

// span finds the one span of a name.
func (l *lab) span(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	var found *tracepb.Span
	for _, s := range l.Spans() {
		if s.Name != name {
			continue
		}
		if found != nil {
			t.Fatalf("two spans are named %q", name)
		}
		found = s
	}
	if found == nil {
		t.Fatalf("no span is named %q", name)
	}
	return found
}

func openLog(t *testing.T) *audit.Log {
	t.Helper()
	key, err := audit.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(filepath.Join(t.TempDir(), "log"), audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var weak = isolate.Policy{Allow: policy.Weakenings}

// callTool calls the tool that is its argument, and what is no tool.
const callTool = `import socket, sys
from isolate_tools import call
print(call(sys.argv[1], {}))
try: call("no such tool\x1b[31m" + "x" * 60, {})
except Exception: pass
try: socket.create_connection(("192.0.2.7", 443), 1)
except OSError: pass
`

// TestRun: the spans of a run and its calls in the caller's trace, and in the
// environment of a tool; every record of the log with its place and hash.
func TestRun(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	l := newLab(t, isolate.Options{Audit: openLog(t), Spares: isolate.NoSpares})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\nprintf '\"%s %s\"' \"$TRACEPARENT\" \"$TRACESTATE\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	where, err := command.New(isolate.Tool{Name: "where"}, command.Program{Path: "./tool", Dir: dir, Env: command.BaseEnv(os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	var tools isolate.Tools
	tools.Add(where)
	var out strings.Builder
	ctx := isolate.WithTraceContext(t.Context(), "00-"+callerTrace+"-"+callerSpan+"-01", "vendor=x")
	res, err := l.Run(ctx, weak, isolate.Cmd{Args: []string{"python3", "-c", callTool, "where"}, Tools: &tools, Stdout: &out})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v, %s%s", res, err, &out, res.Stderr.Kept)
	}
	l.done()

	run, tool := l.span(t, "isolate run"), l.span(t, "execute_tool where")
	if hex.EncodeToString(run.TraceId) != callerTrace || hex.EncodeToString(run.ParentSpanId) != callerSpan || run.TraceState != "vendor=x" {
		t.Errorf("the run is not in the caller's trace: %v", run)
	}
	if string(tool.TraceId) != string(run.TraceId) || string(tool.ParentSpanId) != string(run.SpanId) {
		t.Errorf("the call is not in the run's span: %v", tool)
	}
	if want := "00-" + callerTrace + "-" + hex.EncodeToString(tool.SpanId) + "-01 vendor=x"; strings.TrimSpace(out.String()) != want {
		t.Errorf("the tool was told %q, want %q", out.String(), want)
	}
	if tool.StartTimeUnixNano < run.StartTimeUnixNano || tool.EndTimeUnixNano > run.EndTimeUnixNano || tool.EndTimeUnixNano <= tool.StartTimeUnixNano {
		t.Errorf("the call's time is not within the run's: %v, %v", run, tool)
	}
	is(t, "run", otlptest.Attributes(run.Attributes), map[string]any{
		"process.exit.code": int64(0), "container.id": res.Audit.Run, "container.runtime.name": "isolate", "process.executable.name": "python3",
		"isolate.reason": "exit", "isolate.plan.digest": res.Plan, "isolate.net.mode": "none", "isolate.log.root": res.Audit.Root,
		"isolate.blocked_calls": res.Blocked.Total,
	})
	is(t, "call", otlptest.Attributes(tool.Attributes), map[string]any{
		"gen_ai.tool.name": "where", "gen_ai.operation.name": "execute_tool", "isolate.call.state": "done", "isolate.call.via": "file",
	})
	l.checkRecords(t, res)
}

// is checks that attributes are there.
func is(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %v, want %v", what, key, got[key], value)
		}
	}
}

// checkRecords checks that the copies are the log: none is missing, each has its
// hash, the last has the root that the result has, and nothing tells secrets or
// has control characters.
func (l *lab) checkRecords(t *testing.T, res isolate.Result) {
	t.Helper()
	run := l.span(t, "isolate run")
	names := map[string]map[string]any{}
	for i, r := range l.Logs() {
		body := r.Body.GetStringValue()
		leaf := sha256.Sum256(append([]byte{0}, body...))
		got := otlptest.Attributes(r.Attributes)
		is(t, r.EventName, got, map[string]any{
			"isolate.record.index": int64(i), "isolate.record.leaf": base64.StdEncoding.EncodeToString(leaf[:]), "isolate.run.id": res.Audit.Run,
		})
		if string(r.SpanId) != string(run.SpanId) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %s", r.EventName, body)
		}
		for key, v := range got {
			if text, ok := v.(string); ok && (!utf8.ValidString(text) || strings.ContainsAny(text, "\x1b\n\x00") || len(text) > 300) {
				t.Errorf("%s: %s is %q", r.EventName, key, text)
			}
		}
		if strings.Contains(body, "create_connection") {
			t.Errorf("%s tells arguments: %s", r.EventName, body)
		}
		names[r.EventName] = got
		if int64(i) == res.Audit.Size-1 {
			is(t, r.EventName, got, map[string]any{"isolate.log.size": res.Audit.Size, "isolate.log.root": res.Audit.Root})
		}
	}
	if n := int64(len(l.Logs())); n != res.Audit.Size {
		t.Errorf("%d of %d records came", n, res.Audit.Size)
	}
	is(t, "socket.blocked", names["isolate.socket.blocked"], map[string]any{"destination.address": "192.0.2.7", "destination.port": int64(443), "error.type": "ENETUNREACH"})
	is(t, "call.accepted", names["isolate.call.accepted"], map[string]any{"gen_ai.tool.name": "where"})
	if names["isolate.run.end"] == nil || names["isolate.call.refused"] == nil {
		t.Errorf("events are missing: %v", names)
	}
}

// TestHostileNames: what a program calls things is cut and cleaned.
func TestHostileNames(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	var tools isolate.Tools
	if err := isolate.AddTool(&tools, isolate.Tool{Name: "ok"}, func(context.Context, struct{}) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	res, err := l.Run(t.Context(), weak, isolate.Cmd{Args: []string{"python3", "-c", callTool, "ok"}, Tools: &tools})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v, %s", res, err, res.Stderr.Kept)
	}
	l.done()
	refused := 0
	for _, s := range l.Spans() {
		if !utf8.ValidString(s.Name) || strings.ContainsAny(s.Name, "\x1b\n\x00") || len(s.Name) > 300 {
			t.Errorf("a span is named %q", s.Name)
		}
		if got := otlptest.Attributes(s.Attributes); got["isolate.call.state"] == "refused" {
			refused++
			is(t, s.Name, got, map[string]any{"error.type": "unknown_tool"})
		}
	}
	if refused != 1 || len(l.Spans()) != 3 {
		t.Errorf("of %d spans %d are of refused calls", len(l.Spans()), refused)
	}
	for i, r := range l.Logs() { // there is no log: they are numbered, and nothing signs them
		got := otlptest.Attributes(r.Attributes)
		if is(t, r.EventName, got, map[string]any{"isolate.record.index": int64(i)}); got["isolate.log.root"] != nil || got["isolate.run.id"] == "" {
			t.Errorf("%s: %v", r.EventName, got)
		}
	}
	if res.Audit != nil || len(l.Logs()) < 5 {
		t.Errorf("%+v, %d records", res.Audit, len(l.Logs()))
	}
}

// TestFailures: how runs that end badly look.
func TestFailures(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	p := weak
	p.Wall = 300 * time.Millisecond
	if res, err := l.Run(t.Context(), p, isolate.Cmd{Args: []string{"sleep", "60"}}); err != nil || res.Reason != isolate.ReasonWall {
		t.Fatalf("%+v, %v", res, err)
	}
	l.done()
	s := l.span(t, "isolate run")
	is(t, "run", otlptest.Attributes(s.Attributes), map[string]any{"error.type": "wall", "isolate.reason": "wall"})
	if s.Status.Code != tracepb.Status_STATUS_CODE_ERROR || len(s.ParentSpanId) > 0 {
		t.Errorf("%v", s)
	}
}

// TestRefused: a run that is refused is a span of its own.
func TestRefused(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	if _, err := l.Run(t.Context(), weak, isolate.Cmd{Args: []string{"/proc/self/exe"}}); err == nil {
		t.Error("it ran")
	}
	l.done()
	s := l.span(t, "isolate run")
	is(t, "run", otlptest.Attributes(s.Attributes), map[string]any{"error.type": "sandbox-error"})
	if len(l.Logs()) != 0 || !strings.Contains(s.Status.Message, "CVE-2024-21626") && !strings.Contains(s.Status.Message, "/proc") {
		t.Errorf("%v, %d records", s, len(l.Logs()))
	}
}

// TestKeptSandbox: a span for the sandbox, and in it one for each program.
func TestKeptSandbox(t *testing.T) {
	l := newLab(t, isolate.Options{Audit: openLog(t), Spares: isolate.NoSpares})
	s, err := l.Sandbox(t.Context(), weak)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"true"}}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	l.done()
	sandbox, run := l.span(t, "isolate sandbox"), l.span(t, "isolate run")
	if string(run.ParentSpanId) != string(sandbox.SpanId) || string(run.TraceId) != string(sandbox.TraceId) {
		t.Errorf("the program is not in the sandbox's span: %v, %v", sandbox, run)
	}
	if n := len(l.Logs()); n != 4 { // run.start, program.start, program.end, run.end
		t.Errorf("%d records", n)
	}
}

// TestMetrics: the numbers have the names that Prometheus is given.
func TestMetrics(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	l := newLab(t, isolate.Options{Audit: openLog(t), Spares: isolate.NoSpares})
	var tools isolate.Tools
	if err := isolate.AddTool(&tools, isolate.Tool{Name: "ok"}, func(context.Context, struct{}) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), weak, isolate.Cmd{Args: []string{"python3", "-c", callTool, "ok"}, Tools: &tools}); err != nil {
		t.Fatal(err)
	}
	l.done()
	got := l.Metrics()
	for name, want := range map[string]float64{
		"isolate_default_deny_ratio": 1, "isolate_audit_completeness_ratio": 1, "isolate_socket_attempts_total": 1, "isolate_runs_total": 1,
	} {
		m := got[name]
		points := m.GetGauge().GetDataPoints()
		if strings.HasSuffix(name, "_total") {
			points = m.GetSum().GetDataPoints()
		}
		if len(points) == 0 || points[0].GetAsDouble() != want {
			t.Errorf("%s is %v, want %v", name, m, want)
		}
	}
	h := got["isolate_tool_call_seconds"].GetHistogram().GetDataPoints()
	if len(h) != 1 || h[0].Count != 1 || len(h[0].ExplicitBounds) != len(isolate.HistogramBounds) || otlptest.Attributes(h[0].Attributes)["via"] != "file" {
		t.Errorf("isolate_tool_call_seconds is %v", h)
	}
	if got["isolate_allow_list_coverage_ratio"] != nil {
		t.Error("a ratio without anything to divide by has a value")
	}
}
