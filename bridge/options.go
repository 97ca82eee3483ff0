package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Options bound what one program may ask for. The zero value is ready to use.
type Options struct {
	// MaxCalls bounds the calls of one run, counted when they are accepted,
	// whatever becomes of them. Zero means DefaultMaxCalls, NoLimit none.
	MaxCalls int
	// Parallel is how many tools run at once. Zero means DefaultParallel.
	Parallel int
	// MaxPending bounds the requests that wait. Zero means DefaultMaxPending.
	MaxPending int
	// Timeout bounds a call of a tool that has no limit of its own. Zero means
	// DefaultTimeout.
	Timeout time.Duration
	// RequestBytes and ResponseBytes bound one request and one answer; a
	// bigger result becomes a file in the workspace. Zero means the defaults.
	RequestBytes, ResponseBytes int64
	// TotalRequestBytes and TotalResponseBytes bound those of a run. Zero
	// means the defaults.
	TotalRequestBytes, TotalResponseBytes int64

	// Approver decides where a tool's Approve says so. Nil denies.
	Approver Approver
	// ApprovalWait is how long a decision may take. Zero means
	// DefaultApprovalWait.
	ApprovalWait time.Duration
	// Journal records calls durably. Nil means that nothing does.
	Journal Journal
	// Hold is called when a person is asked, and what it returns when the
	// decision is there: the run's clock stands still meanwhile. Nil means no
	// clock.
	Hold func() (release func())
	// Context gives the context of an accepted call more to carry before its
	// tool gets it, such as a place in a trace. Nil adds nothing.
	Context func(context.Context, Record) context.Context
}

// Defaults of Options, from the protocol's rules (4, 11) and the design.
const (
	DefaultMaxCalls           = 50
	NoLimit                   = -1
	DefaultParallel           = 4
	DefaultMaxPending         = 64
	DefaultTimeout            = 60 * time.Second
	DefaultRequestBytes       = 1 << 20
	DefaultResponseBytes      = 4 << 20
	DefaultTotalRequestBytes  = 64 << 20
	DefaultTotalResponseBytes = 256 << 20
	DefaultApprovalWait       = 300 * time.Second
	// Denials in DenialWindow after which nobody is asked any more. The time in
	// which somebody is being asked does not count for the window.
	DenialLimit  = 3
	DenialWindow = 600 * time.Second
)

// Approver decides about a call.
type Approver interface {
	// Approve answers one question. An error denies. It is called from
	// several goroutines; the context ends when the wait or the run does.
	Approve(context.Context, Question) (Decision, error)
}

// Question is a call that waits for a decision.
type Question struct {
	Tool        string          `json:"tool"`
	Description string          `json:"description,omitempty"`
	Source      string          `json:"source,omitempty"`
	ID          string          `json:"id"`
	Seq         int64           `json:"seq"`
	Args        json.RawMessage `json:"args"` // canonical; schema-checked
}

// Verdict is yes or no. Zero is no.
type Verdict int

// The verdicts.
const (
	Deny Verdict = iota
	Allow
)

func (v Verdict) String() string {
	if v == Allow {
		return "allow"
	}
	return "deny"
}

// MarshalText writes the word that results and logs have.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads that word and no other.
func (v *Verdict) UnmarshalText(text []byte) error {
	switch string(text) {
	case "allow":
		*v = Allow
	case "deny":
		*v = Deny
	default:
		return fmt.Errorf("cannot read verdict %q: it is neither allow nor deny", text)
	}
	return nil
}

// Decision is the answer to a Question. The zero value denies.
type Decision struct {
	Verdict Verdict
	// For is how many calls of the same tool Allow covers, this one included.
	// Zero means one, and so does any number if Args are changed.
	For int
	// Args takes the place of the arguments; it is checked against the schema
	// again. Nil means unchanged.
	Args json.RawMessage
	// By and Reason are recorded.
	By, Reason string
}

// Journal makes calls durable before they take effect.
type Journal interface {
	// Accepted is called before the tool runs. An error refuses the call.
	Accepted(Record) error
	// Finished is called before the answer is visible, for the first
	// MaxRecords refusals too. An error turns the answer into CodeLog. For a
	// tool that runs on after the end of the run it is called twice, as
	// Unknown and later as Discarded, maybe after Broker.Close has returned.
	Finished(Record) error
}
