package isolate

import (
	"context"
	"maps"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/plan"
)

// OwnLimits are the limits of this process (getrlimit(2)). Programs get none that
// lie beyond them.
func OwnLimits() plan.ProcessLimits {
	own, _ := LimitsOf(0) // of oneself they can be read
	return own
}

// LimitsOf are the limits of another process of this user.
func LimitsOf(pid int) (plan.ProcessLimits, error) {
	limits := plan.ProcessLimits{}
	for resource := range unix.RLIMIT_RTTIME + 1 {
		var l unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &l); err != nil {
			return nil, err
		}
		if !plan.PassedOn(resource) {
			l.Cur = l.Max // as any process may have it, and Go has that of open files
		}
		if l.Cur != unix.RLIM_INFINITY || l.Max != unix.RLIM_INFINITY {
			limits[resource] = plan.ProcessLimit{Soft: l.Cur, Hard: l.Max}
		}
	}
	return limits, nil
}

// limitsKey is the key of the limits in a context.
type limitsKey struct{}

// WithProcessLimits is ctx for a caller in another process, which has these
// limits: Plan and Run hold the program within them, as within our own, and so
// it runs as if that process had started it.
func WithProcessLimits(ctx context.Context, limits plan.ProcessLimits) context.Context {
	return context.WithValue(ctx, limitsKey{}, limits)
}

// factsFor are the facts for a caller, and whether they are those of any.
func (r *Runtime) factsFor(ctx context.Context) (f plan.Facts, usual bool) {
	f = r.facts
	limits, other := ctx.Value(limitsKey{}).(plan.ProcessLimits)
	if !other {
		return f, true
	}
	f.Caller = limits.Within(f.Caller)
	return f, maps.Equal(f.Caller, r.facts.Caller)
}
