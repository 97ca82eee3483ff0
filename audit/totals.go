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
}

func newTotals() totals { return totals{open: map[int64][]byte{}, unknown: map[int64]bool{}} }

// add takes what a record says. The error is that it cannot be read, or that
// it is a sum which is not that of the records before it.
func (t *totals) add(rec Record) (Reason, error) {
	switch rec.Event {
	case CallAccepted{}.event(), CallFinished{}.event(), CallDiscarded{}.event():
		if err := t.call(rec); err != nil {
			return Damaged, err
		}
	case CallRefused{}.event():
		t.refused++
	case SocketBlocked{}.event(), SyscallDenied{}.event():
		t.blocked++
	case BridgeTotals{}.event():
		var e BridgeTotals
		if err := unmarshal(rec.Data, &e); err != nil {
			return Damaged, err
		}
		if got := [...]int64{t.done, t.failed, t.refused, t.unended}; got != [...]int64{e.Done, e.Failed, e.Refused - e.Folded, e.Unknown} {
			return Gap, fmt.Errorf("the broker counted %d calls done, %d of them failed, %d refused and listed, %d unknown; the records are %v",
				e.Done, e.Failed, e.Refused-e.Folded, e.Unknown, got)
		}
	case BlockedCounts{}.event():
		var e BlockedCounts
		if err := unmarshal(rec.Data, &e); err != nil {
			return Damaged, err
		}
		if e.Total-e.Folded != t.blocked {
			return Gap, fmt.Errorf("%d refused calls were counted and listed, the records are %d", e.Total-e.Folded, t.blocked)
		}
	}
	return "", nil
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
