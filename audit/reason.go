package audit

import (
	"fmt"
	"slices"
)

// Reason says in one word what is wrong with a log.
type Reason string

// The reasons, in the order of the exit codes of "isolate audit verify".
const (
	BadSignature Reason = "bad-signature" // a signature is not that of its key
	RootMismatch Reason = "root-mismatch" // the records are not those that were signed
	Gap          Reason = "gap"           // a record is missing, doubled or out of order
	MissingEnd   Reason = "missing-end"   // a run has no end, and nothing says that its process died
	Fork         Reason = "fork"          // two signed statements about one log contradict each other
	Truncated    Reason = "truncated"     // the end of a log is gone
	UnknownKey   Reason = "unknown-key"   // signed, but not by a key that may
	RolledBack   Reason = "rolled-back"   // an anchor remembers more than there is
	Damaged      Reason = "damaged"       // what is there is no log
	MissingRun   Reason = "missing-run"   // the host log knows a run whose log is gone
)

// Reasons lists all there are.
func Reasons() []Reason {
	return []Reason{BadSignature, RootMismatch, Gap, MissingEnd, Fork, Truncated, UnknownKey, RolledBack, Damaged, MissingRun}
}

// firstCode is the exit code for the first reason.
const firstCode = 10

// ExitCode is what "isolate audit verify" exits with for a reason.
func (r Reason) ExitCode() int { return firstCode + slices.Index(Reasons(), r) }

// Problem is one thing that is wrong.
type Problem struct {
	Reason Reason `json:"reason"`
	// Log is "host", "anchor" or the id of a run.
	Log string `json:"log"`
	// What says it in a sentence, with the place.
	What string `json:"what"`
}

func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Log, p.Reason, p.What) }
