package isolate_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
)

// Plans are remembered by their policies: bytes that are no UTF-8 were all one
// there, and the second program got the variable of the first.
func TestPlanOfBytes(t *testing.T) {
	r := openWithoutSpares(t)
	for _, value := range []string{"\xff", "\xfe", "\uFFFD"} {
		pl, err := r.Plan(t.Context(), isolate.Policy{Env: map[string]string{"A": value}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(pl.Env, "A="+value) {
			t.Errorf("A=%q is not in %q", value, pl.Env)
		}
	}
}

// What no text can be made of is refused as what it is.
func TestPlanOfNothing(t *testing.T) {
	r := openWithoutSpares(t)
	for _, p := range []isolate.Policy{{CPUs: math.NaN()}, {CPUs: math.Inf(1)}, {Profile: 99}, {EndOnOutput: -1}} {
		_, err := r.Plan(t.Context(), p)
		var refusal *plan.Refusal
		if !errors.As(err, &refusal) {
			t.Errorf("%+v: %v, want a refusal", p, err)
		}
	}
}
