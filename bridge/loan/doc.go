// Package loan lends the tool bridge of a sandbox to the process that has the
// tools: a Lender has the sandbox, a Borrower serves its calls. Neither what a
// program writes nor what a tool answers passes between them, only the handles
// of the bridge's directories and a few words.
//
// It does not know what a tool is or does, nor how the two processes found each
// other: they have a Unix stream socket. A Lender bounds what it reads and how
// long it waits at the end, and takes no word that a broker does not write; it
// trusts the Borrower with the sandbox's files and otherwise with what it says of
// the calls, and so must lend to its own user only.
//
// It needs Linux: SCM_RIGHTS.
package loan

import (
	"encoding/json"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/dirfd"
)

// The conversation, one JSON object a line, in this order:
//
//	lender → borrower   Offer, and with its first byte the two handles
//	borrower → lender   word{Ready}: it serves; or word{Failed}
//	borrower → lender   word{ID, one of Accepted, Finished, Hold, Release}, and
//	lender → borrower   answer{ID}, in any order, any number of times
//	lender → borrower   answer{End}: the run is over
//	borrower → lender   word{Ended}: it serves no more and has closed the handles
//
// Whoever closes its side has given up.

// offer is the beginning.
type offer struct {
	Owner dirfd.Owner `json:"owner"`
	// Journal says whether calls are recorded.
	Journal bool `json:"journal,omitempty"`
}

// word is what a borrower says. One of the pointers is set.
type word struct {
	// ID is the number that the answer has; 0 wants none.
	ID int64 `json:"id,omitempty"`

	Ready    *Ready  `json:"ready,omitempty"`
	Failed   string  `json:"failed,omitempty"`
	Accepted *record `json:"accepted,omitempty"`
	Finished *record `json:"finished,omitempty"`
	// Hold stops the clock of the run, or keeps the program from the terminal,
	// until Release of the same number.
	Hold    Hold            `json:"hold,omitempty"`
	Release int64           `json:"release,omitempty"`
	Ended   *bridge.Summary `json:"ended,omitempty"`
}

// Ready says that the tools are served.
type Ready struct {
	// Socket says that there is one.
	Socket bool `json:"socket,omitempty"`
	// About is for who asked for the run; the loan does not look at it.
	About json.RawMessage `json:"about,omitempty"`
}

// record is a bridge.Record with the arguments, which are no part of a result.
type record struct {
	bridge.Record
	Args json.RawMessage `json:"args,omitempty"`
}

func (r record) whole() bridge.Record {
	r.Record.Args = r.Args
	return r.Record
}

// Hold is something that is held while a person is asked.
type Hold string

// What can be held.
const (
	Clock    Hold = "clock"
	Terminal Hold = "terminal"
)

// answer is what a lender says.
type answer struct {
	ID    int64  `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
	End   bool   `json:"end,omitempty"`
}

const (
	// maxLine bounds a line, in bytes: the summary of a run has 1000 records,
	// each of some KiB at most, and the description of many tools is as long.
	maxLine = 32 << 20
	// maxHeld bounds what is held, and what is asked for, at the same time: more
	// than calls may wait.
	maxHeld = 1024
	// endTime is how long a lender waits for the end of the service. A broker
	// gives its tools a tenth of a second.
	endTime = 5 * time.Second
)
