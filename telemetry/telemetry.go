// Package telemetry tells OpenTelemetry of runs: a span for each run and each
// tool call, a log record for each event of the audit log, and the numbers of
// docs/metrics.md. docs/telemetry.md lists names and attributes.
//
// It makes what the caller's providers are given and sends nothing itself: it
// needs the API of OpenTelemetry, no SDK and no exporter. What it tells is a
// copy, which may be late, incomplete or lost; the audit log is the record, and
// each copy has the place and the hash by which it can be held against that.
//
// What comes from inside a sandbox, names of tools and paths of programs, is cut
// and cleaned where it becomes an attribute. The body of a log record is the
// line of the audit log, which is bounded JSON. It needs no kernel.
package telemetry

import (
	"context"
	"path"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	nolog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/tracecontext"
)

// Options are the providers that are told. Nil ones are told nothing.
type Options struct {
	Traces  trace.TracerProvider
	Logs    log.LoggerProvider
	Metrics metric.MeterProvider
}

// scope is the name of what makes the spans, records and numbers.
const scope = "github.com/isolate-run/isolate"

// Telemetry is an isolate.Telemetry for OpenTelemetry. New makes one.
type Telemetry struct {
	tracer trace.Tracer
	logger log.Logger
	meter  metric.Meter // nil: no metrics
	calls  func(call)   // counts the time of a tool call; never nil
}

var _ isolate.Telemetry = (*Telemetry)(nil)

// New makes a Telemetry of the caller's providers, which stay the caller's: to
// flush and to shut down, after the Runtime was closed.
func New(o Options) (*Telemetry, error) {
	if o.Traces == nil {
		o.Traces = notrace.NewTracerProvider()
	}
	if o.Logs == nil {
		o.Logs = nolog.NewLoggerProvider()
	}
	t := &Telemetry{tracer: o.Traces.Tracer(scope), logger: o.Logs.Logger(scope), calls: func(call) {}}
	if o.Metrics == nil {
		return t, nil
	}
	t.meter = o.Metrics.Meter(scope)
	var err error
	t.calls, err = callTimes(t.meter)
	return t, err
}

// Run begins the span of a run.
func (t *Telemetry) Run(ctx context.Context, about isolate.TelemetryRun) isolate.RunTelemetry {
	ctx = t.place(ctx, about.Within)
	pl := about.Plan
	attributes := []attribute.KeyValue{
		runtimeName.String("isolate"),
		planDigest.String(pl.Digest),
		netMode.String(pl.Net),
		profile.String(pl.Profile),
		identity.String(string(pl.Identity.Mode)),
	}
	if len(pl.Weakenings) > 0 {
		var list []string
		for _, w := range pl.Weakenings {
			list = append(list, string(w))
		}
		attributes = append(attributes, weakenings.StringSlice(list))
	}
	name := "isolate run"
	if about.Program == "" {
		name = "isolate sandbox"
	} else {
		attributes = append(attributes, executableName.String(clean(path.Base(about.Program))))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return &run{t: t, ctx: ctx, span: span}
}

// place is the context in which the span of a run begins: that of a span of this
// process, or else of another one, or else of the kept sandbox it is in.
func (t *Telemetry) place(ctx context.Context, within isolate.RunTelemetry) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if c := tracecontext.Of(ctx); c != (tracecontext.Context{}) {
		return propagator.Extract(ctx, propagation.MapCarrier{tracecontext.ParentField: c.Parent, tracecontext.StateField: c.State})
	}
	if r, ok := within.(*run); ok {
		return trace.ContextWithSpanContext(ctx, r.span.SpanContext())
	}
	return ctx
}

var propagator = propagation.TraceContext{}

// carried is ctx with its span as tools of other processes are told of it.
func carried(ctx context.Context) context.Context {
	c := propagation.MapCarrier{}
	propagator.Inject(ctx, c)
	return tracecontext.With(ctx, tracecontext.Parse(c[tracecontext.ParentField], c[tracecontext.StateField]))
}

// ended ends the span of a run.
func ended(span trace.Span, res isolate.Result, err error) {
	defer span.End()
	switch {
	case err != nil:
		// the text of an error may have paths of the host in it, as isolate's
		// own messages do; it is for who runs isolate, and so are the spans
		span.SetAttributes(reason.String(string(isolate.ReasonSandboxError)), errorType.String(string(isolate.ReasonSandboxError)))
		span.SetStatus(codes.Error, clean(err.Error()))
		return
	case res.Reason == "": // a kept sandbox
		return
	}
	span.SetAttributes(
		reason.String(string(res.Reason)), exitCode.Int(res.ExitCode),
		attribute.Int64("isolate.blocked_calls", res.Blocked.Total),
		attribute.Float64("isolate.cpu_seconds", res.Usage.CPU.Seconds()),
		attribute.Int64("isolate.memory_peak_bytes", res.Usage.Memory),
		attribute.Int64("isolate.stdout_bytes", res.Stdout.Total), attribute.Int64("isolate.stderr_bytes", res.Stderr.Total),
	)
	if a := res.Audit; a != nil {
		span.SetAttributes(logSize.Int64(a.Size), logRoot.String(a.Root))
	}
	if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
		span.SetAttributes(errorType.String(string(res.Reason)))
		span.SetStatus(codes.Error, clean(res.Detail))
	}
}

// call is an answered tool call, for the histogram.
type call struct {
	via  string
	took time.Duration
}
