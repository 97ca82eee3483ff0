package audit

import (
	"errors"
	"fmt"
)

// totals are what the records of a run add up to, beside what others counted:
// the broker its calls, who answers notifications the calls that were refused.
type totals struct {
	open                                    map[int64][]byte // the data of call.accepted of calls without an end
	unknown                                 map[int64]bool   // calls whose end said so
	done, failed, refused, unended, blocked int64
	wrong                                   string // the first sum that others had differently; or empty
}

func newTotals() totals { return totals{open: map[int64][]byte{}, unknown: map[int64]bool{}} }

// add takes what a record says. The error is that it cannot be read.
func (t *totals) add(rec Record) error {
	switch rec.Event {
	case CallAccepted{}.event(), CallFinished{}.event(), CallDiscarded{}.event():
		return t.call(rec)
	case CallRefused{}.event():
		t.refused++
	case SocketBlocked{}.event(), SyscallDenied{}.event():
		t.blocked++
	case BridgeTotals{}.event():
		var e BridgeTotals
		if err := unmarshal(rec.Data, &e); err != nil {
			return err
		}
		if got := [...]int64{t.done, t.failed, t.refused, t.unended}; got != [...]int64{e.Done, e.Failed, e.Refused - e.Folded, e.Unknown} {
			t.differ(rec, "the broker counted %d calls done, %d of them failed, %d refused and listed, %d unknown; the records are %v",
				e.Done, e.Failed, e.Refused-e.Folded, e.Unknown, got)
		}
	case BlockedCounts{}.event():
		var e BlockedCounts
		if err := unmarshal(rec.Data, &e); err != nil {
			return err
		}
		if e.Total-e.Folded != t.blocked {
			t.differ(rec, "%d refused calls were counted and listed, the records are %d", e.Total-e.Folded, t.blocked)
		}
	}
	return nil
}

// differ keeps the first difference. It is told when all else is in order: who
// changed a record has changed the sums too, and the root says more.
func (t *totals) differ(rec Record, format string, args ...any) {
	if t.wrong == "" {
		t.wrong = fmt.Sprintf("record %d: ", rec.Seq) + fmt.Sprintf(format, args...)
	}
}

// call takes a record of an accepted call.
func (t *totals) call(rec Record) error {
	call, decision, err := callOf(rec.Data)
	if err != nil {
		return err
	}
	switch rec.Event {
	case CallAccepted{}.event():
		t.open[call] = append([]byte(nil), rec.Data...)
		return nil
	case CallDiscarded{}.event():
		if !t.unknown[call] { // else it is counted already
			t.unended++
		}
	default:
		switch decision {
		case decisionUnknown:
			t.unended++
			t.unknown[call] = true
		case decisionFailed:
			t.failed++
			t.done++
		default:
			t.done++
		}
	}
	delete(t.open, call)
	return nil
}

// How a call ended, in CallFinished.
const (
	decisionFailed  = "failed"
	decisionUnknown = "unknown"
)

// callOf reads the number of a call and how it ended. It is read for every
// record of a large log, so nothing else is.
func callOf(data []byte) (call int64, decision string, err error) {
	call = -1
	err = scanObject(data, func(key, value []byte) (err error) {
		switch string(key) {
		case "call":
			call, err = count(value)
		case "decision":
			decision, err = plainText(value)
		}
		return err
	})
	if err != nil || call < 0 {
		return 0, "", errors.New("it has no call")
	}
	return call, decision, nil
}
