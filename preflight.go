package isolate

import (
	"context"
	"errors"

	"github.com/isolate-run/isolate/host"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// Doctor probes by doing what this machine can enforce, in well under a second.
// It leaves nothing behind.
func Doctor(ctx context.Context) host.Report {
	o := machine(DefaultDir())
	o.Syscalls = plan.Syscalls()
	o.NetHelper = netHelper("")
	return host.Probe(ctx, o)
}

// machine is what the checks look at: this process, which asks systemd for a
// scope where it has no cgroup of its own.
func machine(dir string) host.Options {
	o := host.ThisProcess()
	o.RuntimeDir = dir
	o.Manager = host.ManagerAsked
	return o
}

// preflight makes the cheap checks that every run needs. It returns what is
// not in order, and a *plan.Refusal if nothing can run here.
func preflight(ctx context.Context, dir string) ([]host.Check, error) {
	checks := host.Blocking(ctx, machine(dir))
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
// missing on this machine, if that can be found by doing. Nothing is to be
// found for a caller who wanted it no more.
func explain(ctx context.Context, dir string, err error) error {
	var told *plan.Refusal
	if errors.As(err, &told) || ctx.Err() != nil {
		return err
	}
	var bad []plan.Problem
	for _, c := range host.Explain(ctx, machine(dir), err) {
		if c.Refuses() && c.Blocking == host.BlockAlways {
			bad = append(bad, problem(c))
		}
	}
	if len(bad) == 0 {
		return err
	}
	return &plan.Refusal{Problems: bad, Cause: err}
}
