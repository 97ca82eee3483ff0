package plan

import "strings"

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
	// Cause is the error that the problems explain; nil if there was none.
	Cause error `json:"-"`
}

// Unwrap gives the cause to errors.Is and errors.As.
func (r *Refusal) Unwrap() error { return r.Cause }

func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("refused")
	for _, p := range r.Problems {
		b.WriteString("\n  " + p.What)
		if p.Rule != "" {
			b.WriteString(": " + p.Rule)
		}
		if p.Remedy != "" {
			b.WriteString("; " + p.Remedy)
		}
	}
	return b.String()
}
