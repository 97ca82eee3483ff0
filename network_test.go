package isolate

import (
	"errors"
	"testing"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
	"github.com/isolate-run/isolate/plan"
)

// A secret that no header can hold is told before anything starts, and not by
// every request that fails.
func TestSecretsThatNoHeaderHolds(t *testing.T) {
	for value, good := range map[string]bool{"Bearer-1 =/+ü": true, "": false, "a\n": false, "a\nb": false, " a": false, "a\x7f": false} {
		t.Setenv("ISOLATE_TEST_SECRET", value)
		err := addSecret(&control.Config{}, "ISOLATE_TEST_SECRET")
		var r *plan.Refusal
		if good != (err == nil) || err != nil && (!errors.As(err, &r) || r.Problems[0].Remedy == "") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// Who injects a secret does not also give it to the program by mistake.
func TestInjectedVariableIsNotSet(t *testing.T) {
	pl := plan.Plan{NetPolicy: &egress.Policy{Rules: []egress.Rule{{Name: "a.example", Inject: []egress.Secret{{Header: "A", Variable: "TOKEN"}}}}}}
	for name, good := range map[string]bool{"TOKEN": false, "OTHER": true} {
		if err := checkCmd(Cmd{Args: []string{"true"}, Env: map[string]string{name: "x"}}, pl); good != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
