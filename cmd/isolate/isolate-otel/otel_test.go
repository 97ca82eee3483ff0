package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/otlptest"
	"github.com/isolate-run/isolate/internal/testenv"
)

// TestMain lets the test binary be the command.
func TestMain(m *testing.M) {
	isolate.Init()
	testscript.Main(m, map[string]func(){"isolate": main})
}

const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
	parent      = "TRACEPARENT=00-" + callerTrace + "-" + callerSpan + "-01"
)

// command is isolate with variables beside PATH and HOME. Whatever happens it
// ends in a minute.
func command(t *testing.T, bin string, env []string, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c = exec.CommandContext(ctx, bin, args...)
	c.Dir, stdout, stderr = t.TempDir(), &bytes.Buffer{}, &bytes.Buffer{}
	c.Stdout, c.Stderr = stdout, stderr
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.Dir}, env...)
	return c, stdout, stderr
}

// exitCode runs a command to its end.
func exitCode(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode()
}

func named(list []*tracepb.Span, name string) (found []*tracepb.Span) {
	for _, s := range list {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

var run = []string{"exec", "--no-server", "--allow", "weak-limits", "--", "sh", "-c", "echo out; exit 3"}

// TestExec: a command that ends has told what it did, in the trace of its
// caller, under the names that the variables give.
func TestExec(t *testing.T) {
	c := otlptest.New(t)
	cmd, stdout, stderr := command(t, "isolate", []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_SERVICE_NAME=judge", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", parent,
	}, run...)
	if code := exitCode(t, cmd); code != 3 || stdout.String() != "out\n" || strings.Contains(stderr.String(), "OpenTelemetry") {
		t.Fatalf("%d, %q, %s", code, stdout, stderr)
	}
	spans := c.Spans()
	if len(spans) != 1 || hex.EncodeToString(spans[0].TraceId) != callerTrace || hex.EncodeToString(spans[0].ParentSpanId) != callerSpan {
		t.Fatalf("the spans are %v", spans)
	}
	if got := otlptest.Attributes(spans[0].Attributes); got["process.exit.code"] != int64(3) || got["error.type"] != "exit" {
		t.Errorf("the run is %v", got)
	}
	if len(c.Logs()) < 4 || len(c.Metrics()) != 0 {
		t.Errorf("%d records and %d metrics", len(c.Logs()), len(c.Metrics()))
	}
	for key, want := range map[string]string{"service.name": "judge", "deployment.environment.name": "test"} {
		if c.Resource(key) != want {
			t.Errorf("%s is %q", key, c.Resource(key))
		}
	}
}

// TestSwitches: the variables that send less, or nothing.
func TestSwitches(t *testing.T) {
	for _, test := range []struct {
		what        string
		env         string
		spans, logs bool
		says        string
	}{
		{"nothing is asked for", "OTEL_SERVICE_NAME=x", false, false, ""},
		{"the SDK is disabled", "OTEL_SDK_DISABLED=true", false, false, ""},
		{"no traces", "OTEL_TRACES_EXPORTER=none", false, true, ""},
		{"no logs", "OTEL_LOGS_EXPORTER=none", true, false, ""},
		{"a sampler that takes nothing", "OTEL_TRACES_SAMPLER=always_off", false, true, ""},
		{"another protocol", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, false, "only http/protobuf is spoken"},
		{"another exporter", "OTEL_TRACES_EXPORTER=zipkin", false, true, "only otlp and none are known"},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := otlptest.New(t)
			env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, test.env}
			if test.what == "nothing is asked for" {
				env = env[1:]
			}
			cmd, _, stderr := command(t, "isolate", env, run...)
			if code := exitCode(t, cmd); code != 3 {
				t.Fatalf("%d, %s", code, stderr)
			}
			if spans, logs := len(c.Spans()) > 0, len(c.Logs()) > 0; spans != test.spans || logs != test.logs {
				t.Errorf("spans: %t, records: %t", spans, logs)
			}
			if said := strings.Contains(stderr.String(), "OpenTelemetry"); said != (test.says != "") || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("%s", stderr)
			}
		})
	}
}

// TestServe: a server tells of the runs of its callers in their traces, goes on
// while its collector is away, says so once, and tells its numbers.
func TestServe(t *testing.T) {
	c := otlptest.New(t)
	socket := filepath.Join(ownDir(t), "serve.sock")
	server, stdout, stderr := command(t, "isolate", []string{"ISOLATE_SOCKET=" + socket, "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_METRIC_EXPORT_INTERVAL=200"}, "serve", "--spares", "1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the server", func() bool { _, err := os.Stat(socket); return err == nil })

	cmd, out, errs := command(t, "isolate", []string{"ISOLATE_SOCKET=" + socket, parent}, "exec", "--allow", "weak-limits", "--", "echo", "served")
	if code := exitCode(t, cmd); code != 0 || out.String() != "served\n" {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
	h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequest("POST", "http://isolate/v1/runs", strings.NewReader(`{"policy": "allow = [\"weak-limits\"]", "args": ["true"]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", strings.TrimPrefix(parent, "TRACEPARENT="))
	res, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	until(t, "the numbers", func() bool {
		points := c.Metrics()["isolate_runs_total"].GetSum().GetDataPoints()
		return len(points) == 1 && points[0].GetAsDouble() == 2
	})
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v, %s, %s", err, stdout, stderr)
	}
	spans := named(c.Spans(), "isolate run")
	if len(spans) != 2 {
		t.Fatalf("the spans are %v; the answer was %s", c.Spans(), body)
	}
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != callerTrace || hex.EncodeToString(s.ParentSpanId) != callerSpan {
			t.Errorf("not in the caller's trace: %v", s)
		}
	}
	if c.Metrics()["isolate_telemetry_made_total"] == nil {
		t.Error("what was made is not counted")
	}
}

// TestServeWithoutCollector: the server says once that its collector is away.
func TestServeWithoutCollector(t *testing.T) {
	socket := filepath.Join(ownDir(t), "serve.sock")
	server, _, stderr := command(t, "isolate", []string{
		"ISOLATE_SOCKET=" + socket, "OTEL_EXPORTER_OTLP_ENDPOINT=" + bad(t)["refused"], "OTEL_METRIC_EXPORT_INTERVAL=100", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50",
	}, "serve", "--spares", "1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the server", func() bool { _, err := os.Stat(socket); return err == nil })
	for range 3 {
		cmd, out, errs := command(t, "isolate", []string{"ISOLATE_SOCKET=" + socket}, "exec", "--allow", "weak-limits", "--", "echo", "served")
		if code := exitCode(t, cmd); code != 0 || out.String() != "served\n" || strings.Contains(errs.String(), "OpenTelemetry") {
			t.Errorf("%d, %s, %s", code, out, errs)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(stderr.String(), "OpenTelemetry"); n != 1 {
		t.Errorf("the server said it %d times: %s", n, stderr)
	}
}

// TestHandOver: isolate itself continues as isolate-otel, which is beside it.
func TestHandOver(t *testing.T) {
	bin := os.Getenv("ISOLATE_BIN")
	if bin == "" {
		t.Skip("needs ISOLATE_BIN, the command to test, as test/all sets it")
	}
	c := otlptest.New(t)
	cmd, stdout, stderr := command(t, bin, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, run...)
	if code := exitCode(t, cmd); code != 3 || stdout.String() != "out\n" || len(c.Spans()) != 1 {
		t.Errorf("%d, %q, %s, %v", code, stdout, stderr, c.Spans())
	}
}

// ownDir is a directory that is ours alone.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for began := time.Now(); !true(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 60*time.Second {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
