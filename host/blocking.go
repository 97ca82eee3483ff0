package host

import (
	"context"
	"slices"
)

// Blocking makes the cheap checks that every run needs: a few small files are
// read and a few system calls tried, in well under a millisecond, and no
// process is started. It returns those that did not find everything in order,
// in the same words as Probe. One with Refuses set refuses the run, unless the
// run consents to the weakening named in its Allow.
//
// A Warn of Blocking is a suspicion that only doing can settle: building the
// sandbox does, and Explain says afterwards whether it was to blame.
func Blocking(ctx context.Context, o Options) []Check {
	s := look(o)
	s.ctx = ctx
	var bad []Check
	for _, sec := range sections() {
		for _, l := range sec.looks {
			if l.speed != fast {
				continue
			}
			if c, ok := l.run(s); ok && c.Status <= Warn {
				bad = append(bad, c)
			}
		}
	}
	return bad
}

// Explain says why building a sandbox may have failed with err: it makes all
// probes and returns the checks that failed, those first whose probe failed
// with the same error number as err. It returns nil if this machine can do
// everything, and then the fault is not the machine's.
func Explain(ctx context.Context, o Options, err error) []Check {
	cause := errnoOf(err)
	var bad []Check
	for _, c := range Probe(ctx, o).Checks {
		if c.Status == Fail {
			bad = append(bad, c)
		}
	}
	slices.SortStableFunc(bad, func(a, b Check) int { return far(a, cause) - far(b, cause) })
	return bad
}

// far orders checks by how little they explain an error number.
func far(c Check, cause Errno) int {
	switch {
	case cause != 0 && c.cause == cause:
		return 0
	case c.Refuses():
		return 1
	}
	return 2
}
