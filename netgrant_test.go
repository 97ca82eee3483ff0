package isolate

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/plan"
)

func TestGrantCheck(t *testing.T) {
	good := NetGrant{Rules: []NetRule{{Name: "pypi.org"}}, For: time.Minute, Reason: "fetch packages"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*NetGrant){
		"cannot grant nothing":          func(g *NetGrant) { g.Rules = nil },
		"cannot grant for 0s":           func(g *NetGrant) { g.For = 0 },
		"cannot grant for -1s":          func(g *NetGrant) { g.For = -time.Second },
		"cannot grant for 24h0m1s":      func(g *NetGrant) { g.For = MaxGrant + time.Second },
		"cannot grant without a reason": func(g *NetGrant) { g.Reason = " " },
		"cannot record the reason":      func(g *NetGrant) { g.Reason = "a\nb" },
	} {
		g := good
		change(&g)
		var r *plan.Refusal
		if err := g.check(); !errors.As(err, &r) || len(r.Problems) != 1 || r.Problems[0].What != want || r.Problems[0].Remedy == "" {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if err := (NetGrant{Reason: strings.Repeat("x", 257)}).check(); err == nil || len(err.(*plan.Refusal).Problems) != 3 {
		t.Errorf("got %v, want every problem", err)
	}
}

func TestGrantEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	soon, late := now.Add(time.Second), now.Add(time.Hour)
	g := NetGrant{For: time.Minute, Reason: "r", Rules: []NetRule{{Name: "a"}, {Name: "b", For: 2 * time.Second}, {Name: "c", For: time.Hour}, {Name: "d", Until: soon}, {Name: "e", Until: late}}}
	var got []time.Duration
	for _, r := range g.until(now) {
		got = append(got, r.Until.Sub(now))
		if r.For != 0 || r.Reason != "r" {
			t.Errorf("got %+v", r)
		}
	}
	if want := []time.Duration{time.Minute, 2 * time.Second, time.Minute, time.Second, time.Minute}; !reflect.DeepEqual(got, want) {
		t.Errorf("the rules end after %v, want %v", got, want)
	}
	if g.Rules[1].For == 0 {
		t.Error("the caller's rules were changed")
	}
}
