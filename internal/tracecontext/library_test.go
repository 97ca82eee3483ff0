package tracecontext_test

import (
	"context"
	"encoding/hex"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/isolate-run/isolate/internal/tracecontext"
)

const (
	libTrace = "0af7651916cd43dd8448eb211c80319c"
	libSpan  = "b7ad6b7169203331"
)

// FuzzAgainstLibrary: what tools are told of is, to the library that they may use,
// the same place in a trace as what came in. The library may know fewer flags.
func FuzzAgainstLibrary(f *testing.F) {
	f.Add("00-"+libTrace+"-"+libSpan+"-01", "vendor=x")
	f.Add("cc-"+libTrace+"-"+libSpan+"-01-what-comes", "a=1,b@c=2")
	f.Add("00-"+libTrace+"-"+libSpan+"-ff", "=")
	read := func(parent, state string) trace.SpanContext {
		c := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
		return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), c))
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		ours, theirs := tracecontext.Parse(parent, state), read(parent, state)
		again := read(ours.Parent, ours.State)
		switch {
		case theirs.IsValid() && ours.Parent == "":
			t.Errorf("%q is a place to the library, and none here", parent)
		case theirs.IsValid() && (again.TraceID() != theirs.TraceID() || again.SpanID() != theirs.SpanID() || again.IsSampled() != theirs.IsSampled()):
			t.Errorf("%q became %q", parent, ours.Parent)
		case again.IsValid() && ours.Parent[3:35] != hex.EncodeToString(raw(again.TraceID())):
			t.Errorf("%q is read as %s", ours.Parent, again.TraceID())
		}
	})
}

func raw(id trace.TraceID) []byte { return id[:] }
