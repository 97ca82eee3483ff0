package tracecontext

import (
	"context"
	"slices"
	"strings"
	"testing"
)

const (
	trace  = "0af7651916cd43dd8448eb211c80319c"
	span   = "b7ad6b7169203331"
	parent = "00-" + trace + "-" + span + "-01"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ what, parent, state, want, wantState string }{
		{"as it should be", parent, "a=1,b=2", parent, "a=1,b=2"},
		{"not sampled", "00-" + trace + "-" + span + "-00", "", "00-" + trace + "-" + span + "-00", ""},
		{"a later version", "01-" + trace + "-" + span + "-01-more", "a=1", parent, "a=1"},
		{"a later version, joined", "01-" + trace + "-" + span + "-01more", "", "", ""},
		{"no version", "ff-" + trace + "-" + span + "-01", "a=1", "", ""},
		{"too long", parent + "-x", "", "", ""},
		{"too short", parent[:54], "a=1", "", ""},
		{"capitals", strings.ToUpper(parent), "", "", ""},
		{"no trace", "00-" + strings.Repeat("0", 32) + "-" + span + "-01", "", "", ""},
		{"no span", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01", "", "", ""},
		{"a space before", " " + parent, "", "", ""},
		{"empty", "", "a=1", "", ""},
		{"a state with a line feed", parent, "a=1\nb=2", parent, ""},
		{"a state that is too long", parent, strings.Repeat("a", 513), parent, ""},
	} {
		if got := Parse(c.parent, c.state); got != (Context{c.want, c.wantState}) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

func TestCarried(t *testing.T) {
	if c := Of(With(context.Background(), Context{})); c != (Context{}) || c.Environ() != nil || c.Fields() != nil {
		t.Errorf("nothing became %+v", c)
	}
	c := Of(With(context.Background(), Parse(parent, "a=1")))
	if got := c.Environ(); !slices.Equal(got, []string{"TRACEPARENT=" + parent, "TRACESTATE=a=1"}) {
		t.Errorf("%q", got)
	}
	if got := c.Fields(); got["traceparent"] != parent || got["tracestate"] != "a=1" || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// Whatever comes, what is passed on has the one form, and is read as itself.
func FuzzParse(f *testing.F) {
	f.Add(parent, "a=1")
	f.Add("cc-"+trace+"-"+span+"-09-extra", "\x00")
	f.Fuzz(func(t *testing.T, p, s string) {
		c := Parse(p, s)
		if c == (Context{}) {
			return
		}
		if len(c.Parent) != parentSize || !strings.HasPrefix(c.Parent, "00-") || len(c.State) > maxState || strings.ContainsAny(c.State, "\n\r\x00") {
			t.Errorf("%q, %q became %+v", p, s, c)
		}
		if Parse(c.Parent, c.State) != c {
			t.Errorf("%+v is not read as itself", c)
		}
	})
}
