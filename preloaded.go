package isolate

import (
	"sort"
	"strings"

	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/preload"
)

// checkPreloaded says what of a command a preloaded interpreter cannot do.
func checkPreloaded(c Cmd, pl plan.Plan) (bad []plan.Problem) {
	if pl.Preload == nil {
		return nil
	}
	call, problem := preload.Read(c.Args)
	if problem == nil && call.Kind == preload.Stdin && c.Terminal != nil {
		problem = &preload.Problem{What: "cannot preload an interpreter for a terminal", Hint: "name a script, or leave the preloading out"}
	}
	if problem != nil {
		bad = append(bad, plan.Problem{What: problem.What, Rule: "the policy preloads " + pl.Preload.String(), Remedy: problem.Hint})
	}
	started := map[string]string{}
	for _, kv := range pl.Env {
		k, v, _ := strings.Cut(kv, "=")
		started[k] = v
	}
	var late []string
	for k, v := range c.Env {
		if preload.ReadAtStart(k) && pl.Extend(k, started[k], v) != started[k] {
			late = append(late, k)
		}
	}
	if len(late) > 0 {
		sort.Strings(late)
		bad = append(bad, plan.Problem{
			What: "cannot set " + strings.Join(late, ", ") + " for a preloaded interpreter",
			Rule: "it was read when the interpreter started", Remedy: "set it in the policy's env, or leave the preloading out",
		})
	}
	return bad
}

// preloadedCall is what a fork of the template runs; nil without one. Whoever
// calls has checked the command.
func preloadedCall(args, env []string, pl plan.Plan) []byte {
	if pl.Preload == nil {
		return nil
	}
	call, _ := preload.Read(args)
	return call.Encode(env)
}
