//go:build !isolate_weak

package isolate

import "github.com/isolate-run/isolate/plan"

// weakened is the plan itself; see weak_on.go.
func weakened(p plan.Plan) plan.Plan { return p }
