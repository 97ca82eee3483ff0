package isolate

import (
	"context"
	"sync"
	"time"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/tracecontext"
	"github.com/isolate-run/isolate/plan"
)

// Telemetry follows runs while they go on, to tell others of them. Package
// telemetry makes one of the providers of OpenTelemetry. Nothing depends on it:
// the log (Options.Audit) is the record, this is a copy. Its methods must return
// at once and are called from several goroutines.
type Telemetry interface {
	// Run begins to follow a run, or a kept sandbox. The context is that of the
	// caller, who may be in a trace: that of its own library, or what
	// WithTraceContext has set.
	Run(context.Context, TelemetryRun) RunTelemetry
	// Watch is called once, by Open: the Telemetry may ask for the Runtime's
	// numbers until Done is called by Close.
	Watch(*Runtime) (done func())
}

// TelemetryRun is what is known of a run when it begins.
type TelemetryRun struct {
	Plan plan.Plan
	// Program is what is run, as it was asked for; empty for a kept sandbox.
	Program string
	// Within is the kept sandbox that the program runs in; nil if it has one of
	// its own.
	Within RunTelemetry
}

// RunTelemetry follows one run.
type RunTelemetry interface {
	// Call begins a tool call, which was admitted at a time. The context that it
	// returns is for the tool, and the function is called once, with what became
	// of the call.
	Call(ctx context.Context, at time.Time, c bridge.Record) (context.Context, func(bridge.Record))
	// Records are events: those of the run's log, when they are durable, with
	// the checkpoint that covers them. Of a run without a log they are numbered
	// in the same way, and the checkpoint is zero. One goroutine at a time calls it.
	Records([]audit.Record, audit.Checkpoint)
	// End is called once, as the last. Of a kept sandbox the result is zero.
	End(Result, error)
}

// WithTraceContext is ctx with the place in a trace that a caller in another
// process has told of: the values of W3C Trace Context, for which the names are
// traceparent and tracestate. What is none changes nothing. Tools that are
// commands or MCP servers are told of it also without a Telemetry.
func WithTraceContext(ctx context.Context, traceparent, tracestate string) context.Context {
	return tracecontext.With(ctx, tracecontext.Parse(traceparent, tracestate))
}

// follower is the telemetry of a run as the record uses it. The zero value
// follows nothing.
type follower struct {
	to    RunTelemetry         // nil: nobody follows
	trace tracecontext.Context // of the caller, for tools if nobody follows
	began time.Time            // when the bridge was opened
	lent  bool                 // tools run elsewhere: they are not told of their spans

	mu sync.Mutex
	// open are the calls whose tools were begun, and what is called at their end;
	// nil stands for one that ended before.
	open map[int64]func(bridge.Record)
}

// called gives the context of a call its place in the trace.
func (f *follower) called(ctx context.Context, rec bridge.Record) context.Context {
	if f.to == nil {
		return tracecontext.With(ctx, f.trace)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[int64]func(bridge.Record){}
	}
	if _, over := f.open[rec.Seq]; over {
		delete(f.open, rec.Seq)
		return ctx
	}
	ctx, f.open[rec.Seq] = f.to.Call(ctx, f.began.Add(rec.Received), rec)
	return ctx
}

// placed is what gives the contexts of calls their place in the trace of the
// sandbox, which is opened for ctx.
func (r *record) placed(ctx context.Context) func(context.Context, bridge.Record) context.Context {
	if r == nil {
		trace := tracecontext.Of(ctx)
		return func(ctx context.Context, _ bridge.Record) context.Context { return tracecontext.With(ctx, trace) }
	}
	r.trace, r.began = tracecontext.Of(ctx), time.Now()
	return r.called
}

// calledElsewhere says that the bridge is lent: of calls only the end is told.
func (r *record) calledElsewhere() {
	if r != nil {
		r.began, r.lent = time.Now(), true
	}
}

// callEnded is told of every call that the journal is told of.
func (f *follower) callEnded(rec bridge.Record) {
	if f.to == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.open[rec.Seq]
	delete(f.open, rec.Seq)
	switch {
	case end == nil && rec.State == bridge.Discarded:
		return // it has ended before, as unknown
	case end == nil && rec.State == bridge.Unknown && !f.lent:
		if f.open == nil {
			f.open = map[int64]func(bridge.Record){}
		}
		f.open[rec.Seq] = nil // its tool is about to begin
	}
	if end == nil {
		_, end = f.to.Call(context.Background(), f.began.Add(rec.Received), rec)
	}
	end(rec)
}

func (f *follower) end(res Result, err error) {
	if f.to != nil {
		f.to.End(res, err)
	}
}

// follow begins to follow a program of a kept sandbox.
func (b *box) follow(ctx context.Context, c Cmd) (end func(Result, error)) {
	t := b.runtime.options.Telemetry
	if t == nil {
		return func(Result, error) {}
	}
	return t.Run(ctx, TelemetryRun{Plan: b.plan, Program: c.Args[0], Within: b.record.to}).End
}
