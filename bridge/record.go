package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Record is what is remembered of one call.
type Record struct {
	Seq    int64  `json:"seq"` // 0 if it was never admitted
	ID     string `json:"id,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Source string `json:"source,omitempty"`
	Via    Via    `json:"via"`
	State  State  `json:"state"`
	// Class and Code are those of the Error that was answered; empty if none.
	Class Class `json:"class,omitempty"`
	Code  Code  `json:"code,omitempty"`
	// Detail is for people on the host: the text of a tool's own error.
	Detail string `json:"detail,omitempty"`

	// Received counts from the start of the broker.
	Received time.Duration `json:"received_ns"`
	// Wall is from admission to answer, Waited what of it a person took.
	Wall   time.Duration `json:"wall_ns"`
	Waited time.Duration `json:"waited_ns,omitempty"`
	// Ran is what of it the tool itself took; 0 if it has not returned in time.
	Ran           time.Duration `json:"ran_ns,omitempty"`
	RequestBytes  int64         `json:"request_bytes"`
	ResponseBytes int64         `json:"response_bytes"`
	// ArgsDigest is the SHA-256 of the canonical arguments the tool got, in hex.
	ArgsDigest string `json:"args_sha256,omitempty"`
	// RequestDigest is the SHA-256 of the request's bytes as they were read.
	RequestDigest string    `json:"request_sha256,omitempty"`
	Approval      *Approved `json:"approval,omitempty"`

	// Args is for the Journal and the Approver; it is not part of a result.
	Args json.RawMessage `json:"-"`
}

// Check says what no broker writes into a record. It is for those that another
// process made: words of a fixed list end up as names of numbers, of which there
// must be few.
func (r Record) Check() error {
	switch {
	case r.Via != ViaFile && r.Via != ViaSocket:
		return fmt.Errorf("the record of a tool call has transport %s", shown(string(r.Via)))
	case !slices.Contains([]State{Received, Waiting, Running, Done, Refused, Unknown, Discarded}, r.State):
		return fmt.Errorf("the record of a tool call has state %s", shown(string(r.State)))
	case r.Class != "" && !r.Class.known():
		return fmt.Errorf("the record of a tool call has class %s", shown(string(r.Class)))
	}
	return nil
}

// Via is the transport of a call.
type Via string

// The transports.
const (
	ViaFile   Via = "file"
	ViaSocket Via = "socket"
)

// State is how far a call came.
type State string

// The states.
const (
	Received State = "received" // claimed, not yet judged
	Waiting  State = "waiting"  // for a person
	Running  State = "running"
	Done     State = "done"    // answered, with a result or the tool's error
	Refused  State = "refused" // answered with an error; the tool did not run
	// Unknown: the run ended while the tool ran; what it did is not known.
	Unknown State = "unknown"
	// Discarded: the tool ended after the run; its result was thrown away.
	Discarded State = "discarded"
)

// Approved is how a person, or who stands in for one, decided.
type Approved struct {
	Verdict Verdict `json:"verdict"`
	// By says who decided: "terminal", "webhook", a name, "timeout", "nobody",
	// "grant" for a call that an earlier answer covers, "denial-limit".
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Edited are the arguments as the person changed them; nil if unchanged.
	Edited json.RawMessage `json:"edited,omitempty"`
}

// Summary is what is remembered of all calls of a run.
type Summary struct {
	// Counts of calls by outcome. Accepted is how many count against MaxCalls.
	Accepted int64 `json:"accepted"`
	Done     int64 `json:"done"`
	Failed   int64 `json:"failed"` // part of Done: answered with an error
	Refused  int64 `json:"refused"`
	// Folded is the part of Refused that the Journal was not told.
	Folded  int64 `json:"-"`
	Unknown int64 `json:"unknown"` // Discarded ones included
	Ignored int64 `json:"ignored"` // files whose names are no request's
	// Calls are the records of the first calls, at most MaxRecords; Omitted is
	// how many have none.
	Calls   []Record `json:"calls"`
	Omitted int64    `json:"omitted,omitempty"`
}

// Check is Record.Check of all calls, and of their number.
func (s Summary) Check() error {
	if len(s.Calls) > MaxRecords {
		return fmt.Errorf("the summary of tool calls has %d records", len(s.Calls))
	}
	for _, r := range s.Calls {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// MaxRecords bounds the records that a broker keeps.
const MaxRecords = 1000
