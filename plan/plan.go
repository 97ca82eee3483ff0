// Package plan resolves a policy and the facts of this machine into what will
// happen, or into one refusal that lists every unmet point with its remedy.
//
// A plan is a value: printable, comparable, digestible. Nothing here changes
// the machine. It is the only importer of namespaces, seccompprofile and
// rootfs. It needs no kernel.
package plan

// Plan is what will happen.
type Plan struct {
	// Digest identifies everything below ("sha256:…").
	Digest string `json:"digest"`
}

// Text is the plan for people, as `isolate exec --explain` prints it.
func (p Plan) Text() string { return p.Digest + "\n" }

// Problem is one unmet point.
type Problem struct {
	// What was refused, lower case: "cannot bind \"/proc\"".
	What string `json:"what"`
	// Rule is the guarantee or rule that refused it, and where it stands.
	Rule string `json:"rule"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

// Refusal lists every unmet point at once. Nothing was created.
type Refusal struct {
	Problems []Problem `json:"problems"`
}

func (r *Refusal) Error() string {
	s := "refused"
	for _, p := range r.Problems {
		s += "\n  " + p.What + ": " + p.Rule + "; " + p.Remedy
	}
	return s
}
