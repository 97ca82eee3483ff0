package isolate

import (
	"context"

	"github.com/isolate-run/isolate/host"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// preflight makes the cheap checks that every run needs. It returns what is
// not in order, and a *plan.Refusal if nothing can run here.
func preflight(ctx context.Context, dir string) ([]host.Check, error) {
	o := host.ThisProcess()
	o.RuntimeDir = dir
	checks := host.Blocking(ctx, o)
	var bad []plan.Problem
	for _, c := range checks {
		if c.Refuses() && c.Blocking == host.BlockAlways {
			bad = append(bad, problem(c))
		}
	}
	if len(bad) > 0 {
		return checks, &plan.Refusal{Problems: bad}
	}
	return checks, nil
}

// problem says a check in the words of isolate doctor.
func problem(c host.Check) plan.Problem {
	return plan.Problem{What: c.What, Rule: c.Missing + " (" + c.ID + ": " + c.Evidence + ")", Remedy: c.Remedy}
}

// limitsProblem is what doctor says of limits, for a plan that misses them.
func limitsProblem(checks []host.Check) plan.Problem {
	for _, c := range checks {
		if c.Refuses() && c.Allow == string(policy.WeakLimits) {
			return problem(c)
		}
	}
	return plan.Problem{
		What:   "cannot enforce limits on the whole process tree",
		Rule:   "no usable cgroup controller",
		Remedy: "see isolate doctor",
	}
}

// explain replaces the error of a cell that could not be built by what is
// missing on this machine, if that can be found by doing.
func explain(ctx context.Context, dir string, err error) error {
	o := host.ThisProcess()
	o.RuntimeDir = dir
	var bad []plan.Problem
	for _, c := range host.Explain(ctx, o, err) {
		if c.Refuses() && c.Blocking == host.BlockAlways {
			bad = append(bad, problem(c))
		}
	}
	if len(bad) == 0 {
		return err
	}
	return &plan.Refusal{Problems: bad, Cause: err}
}
