package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge"
)

// run is the span of a run, or of a kept sandbox, and what belongs to it.
type run struct {
	t    *Telemetry
	ctx  context.Context // of the span
	span trace.Span

	named sync.Once // the span has the id of the run
}

var _ isolate.RunTelemetry = (*run)(nil)

// Call begins the span of a tool call.
func (r *run) Call(ctx context.Context, at time.Time, c bridge.Record) (context.Context, func(bridge.Record)) {
	tool := clean(c.Tool)
	ctx = trace.ContextWithSpanContext(ctx, r.span.SpanContext())
	ctx, span := r.t.tracer.Start(ctx, "execute_tool "+tool, trace.WithTimestamp(at), trace.WithAttributes(
		operation.String("execute_tool"), toolName.String(tool), toolCallID.String(clean(c.ID)),
		attribute.String("isolate.tool.source", clean(c.Source)), attribute.String("isolate.call.via", string(c.Via)),
		attribute.Int64("isolate.call.number", c.Seq),
	))
	return carried(ctx), func(c bridge.Record) { r.called(span, at, c) }
}

// called ends the span of a tool call.
func (r *run) called(span trace.Span, at time.Time, c bridge.Record) {
	span.SetAttributes(
		attribute.String("isolate.call.state", string(c.State)),
		attribute.Int64("isolate.call.request_bytes", c.RequestBytes), attribute.Int64("isolate.call.response_bytes", c.ResponseBytes),
	)
	if c.Waited > 0 {
		span.SetAttributes(attribute.Float64("isolate.call.waited_seconds", c.Waited.Seconds()))
	}
	if a := c.Approval; a != nil {
		span.SetAttributes(attribute.String("isolate.approval.verdict", a.Verdict.String()), attribute.String("isolate.approval.by", clean(a.By)))
	}
	if c.State != bridge.Done || c.Class != "" {
		kind := string(c.Code)
		if kind == "" {
			kind = string(c.State)
		}
		span.SetAttributes(errorType.String(clean(kind)))
		span.SetStatus(codes.Error, string(c.Class))
	}
	span.End(trace.WithTimestamp(at.Add(c.Wall)))
	if c.State == bridge.Done && c.Ran > 0 {
		r.t.calls(call{string(c.Via), max(0, c.Wall-c.Waited-c.Ran)})
	}
}

// Records tells of events.
func (r *run) Records(list []audit.Record, c audit.Checkpoint) {
	for _, rec := range list {
		r.named.Do(func() { r.span.SetAttributes(runID.String(rec.Run), containerID.String(rec.Run)) })
		r.t.logger.Emit(r.ctx, event(rec, c))
	}
}

// End ends the span.
func (r *run) End(res isolate.Result, err error) { ended(r.span, res, err) }
