// Package approve asks somebody whether a call may go ahead: a person at the
// terminal, a command, a web service, or a function of Go.
//
// All get the same Question and may allow one call, allow a number of calls of
// the same tool, allow it with other arguments, or deny. Whatever goes wrong is
// an error, and the broker takes an error for a no. The waiting limit, the
// limit of denials and the check of changed arguments are the broker's.
//
// The package opens the terminal, runs a command or sends a request only when
// a question is asked. Kernel: poll; a terminal, if that is asked.
package approve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/internal/strictjson"
)

// Func is an Approver that is a function.
type Func func(context.Context, bridge.Question) (bridge.Decision, error)

// Approve calls f.
func (f Func) Approve(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
	return f(ctx, q)
}

var _ bridge.Approver = Func(nil)

const (
	// MaxReply bounds what a command or a web service answers, in bytes: that
	// of the largest request, whose arguments may come back changed, and room
	// for the rest.
	MaxReply = bridge.DefaultRequestBytes + 64<<10
	// MaxCalls is the largest number of calls one answer may allow.
	MaxCalls = 10_000
	// maxText bounds a reason or a name, in bytes.
	maxText = 1 << 10
)

// reply is what a command or a web service answers.
type reply struct {
	Decision string          `json:"decision"` // "allow" or "deny"
	For      int             `json:"for"`
	Args     json.RawMessage `json:"args"`
	By       string          `json:"by"`
	Reason   string          `json:"reason"`
}

// decode reads a reply strictly. Who gave it is asked of via, or via alone.
func decode(via string, data []byte) (bridge.Decision, error) {
	var r reply
	if len(data) > MaxReply {
		return bridge.Decision{}, fmt.Errorf("cannot read the decision: it has more than %d bytes", MaxReply)
	}
	if !utf8.Valid(data) {
		return bridge.Decision{}, errors.New("cannot read the decision: it is not UTF-8")
	}
	if err := strictjson.Decode(data, &r); err != nil {
		return bridge.Decision{}, fmt.Errorf("cannot read the decision: %w", err)
	}
	if r.For < 0 || r.For > MaxCalls {
		return bridge.Decision{}, fmt.Errorf("cannot use the decision: it is for %d calls, not 0 to %d", r.For, MaxCalls)
	}
	out := bridge.Decision{By: via, Reason: plaintext.Clean(r.Reason, maxText)}
	if r.By != "" {
		out.By += ": " + plaintext.Clean(r.By, maxText)
	}
	switch r.Decision {
	case "allow":
		out.Verdict, out.For = bridge.Allow, r.For
		if !isNull(r.Args) {
			out.Args = r.Args
		}
	case "deny":
	default:
		return bridge.Decision{}, fmt.Errorf("cannot use the decision: it is %q, not \"allow\" or \"deny\"", plaintext.Clean(r.Decision, 40))
	}
	return out, nil
}

func isNull(v json.RawMessage) bool { return len(v) == 0 || string(v) == "null" }
