package isolate

import (
	"encoding/json"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge"
)

// journal records tool calls before they take effect, here and with next, which
// may be nil.
func (r *record) journal(next bridge.Journal) bridge.Journal {
	if r == nil {
		return next
	}
	return callJournal{r, next}
}

type callJournal struct {
	record *record
	next   bridge.Journal
}

var _ bridge.Journal = callJournal{}

func (j callJournal) Accepted(rec bridge.Record) error {
	if err := j.record.ready(); err != nil {
		return err
	}
	events := append(j.approval(rec), audit.CallAccepted{
		Call: rec.Seq, ID: rec.ID, Tool: rec.Tool, Source: rec.Source, Via: string(rec.Via),
		Args: j.payload(rec.Args), Request: rec.RequestBytes,
	})
	if err := j.record.append(events...); err != nil || j.next == nil {
		return err
	}
	return j.next.Accepted(rec)
}

// Finished does not wait for the disk: what the tool did is done, and that it was
// called is durable. See docs/adr/0011.
func (j callJournal) Finished(rec bridge.Record) error {
	if err := j.record.ready(); err != nil {
		return err
	}
	var events []audit.Event
	wall := rec.Wall.Microseconds()
	switch rec.State {
	case bridge.Refused:
		events = append(j.approval(rec), audit.CallRefused{
			Call: rec.Seq, ID: rec.ID, Tool: rec.Tool, Via: string(rec.Via), Class: string(rec.Class), Code: string(rec.Code),
			Args: j.payload(rec.Args), Request: rec.RequestBytes, Wall: wall,
		})
	case bridge.Discarded:
		events = []audit.Event{audit.CallDiscarded{Call: rec.Seq, ID: rec.ID, Tool: rec.Tool, Wall: wall}}
	default:
		decision := string(rec.State)
		if rec.State == bridge.Done && rec.Class != "" {
			decision = "failed"
		}
		events = []audit.Event{audit.CallFinished{
			Call: rec.Seq, ID: rec.ID, Tool: rec.Tool, Decision: decision, Class: string(rec.Class), Code: string(rec.Code),
			Wall: wall, Waited: rec.Waited.Microseconds(), Response: rec.ResponseBytes,
		}}
	}
	j.record.callEnded(rec)
	if err := j.record.later(events...); err != nil {
		return err
	}
	j.record.late(rec)
	if j.next == nil {
		return nil
	}
	return j.next.Finished(rec)
}

// late notes which recorded calls have two ends.
func (r *record) late(rec bridge.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case rec.State == bridge.Unknown:
		if r.open == nil {
			r.open = map[int64]bool{}
		}
		r.open[rec.Seq] = true
	case r.open[rec.Seq]:
		delete(r.open, rec.Seq)
		r.twice++
	}
}

func (j callJournal) payload(args json.RawMessage) *audit.Payload {
	if args == nil {
		return nil
	}
	return j.record.run.Payload(args)
}

// approval is the decision about a call, if there was one.
func (j callJournal) approval(rec bridge.Record) []audit.Event {
	a := rec.Approval
	if a == nil {
		return nil
	}
	verdict := "deny"
	if a.Verdict == bridge.Allow {
		verdict = "allow"
	}
	return []audit.Event{audit.Approval{
		Call: rec.Seq, ID: rec.ID, Tool: rec.Tool, Verdict: verdict, By: a.By, Reason: a.Reason,
		Edited: j.payload(a.Edited), Waited: rec.Waited.Microseconds(),
	}}
}
