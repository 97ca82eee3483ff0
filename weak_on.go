//go:build isolate_weak

package isolate

import "github.com/isolate-run/isolate/plan"

// Weaken, in builds for a test only (tag isolate_weak), changes every plan: with
// it a test shows that "isolate prove" notices. Nil changes nothing.
var Weaken func(plan.Plan) plan.Plan

func weakened(p plan.Plan) plan.Plan {
	if Weaken == nil {
		return p
	}
	return Weaken(p)
}
