package audit

import (
	"sync"
	"time"
)

// Unlogged is a run that no log has: its records are made and numbered as those
// of a log, for who watches them, and are not kept. Nobody signs them. It is
// safe for concurrent use.
type Unlogged struct {
	id, policy string
	began      time.Time
	seen       Watch

	mu     sync.Mutex
	seq    int64
	counts map[string]int64
	closed bool
}

// NewUnlogged begins a run with its first records. The checkpoints that w is
// told are zero.
func NewUnlogged(w Watch, start RunStart, first ...Event) (*Unlogged, error) {
	began := time.Now()
	id, err := newID(began)
	if err != nil {
		return nil, err
	}
	u := &Unlogged{id: id, policy: start.Plan, began: began, seen: w, counts: map[string]int64{}}
	return u, u.Append(append([]Event{start}, first...)...)
}

// Append hands the events on, in their order and with nothing between them.
func (u *Unlogged) Append(events ...Event) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	now := time.Now()
	leaves := make([][]byte, len(events))
	for i, e := range events {
		u.counts[string(e.event())]++
		if end, ok := e.(RunEnd); ok {
			end.Records, end.Counts = u.seq+1, u.counts
			e = end
		}
		one := entry{event: e, time: now, mono: now.Sub(u.began), run: u.id, policy: u.policy}
		var err error
		if leaves[i], err = encode(one.envelope(u.seq, "")); err != nil {
			return err
		}
		u.seq++
	}
	u.seen.tell(leaves, Checkpoint{})
	return nil
}

// AppendLater is Append: there is nothing to wait for.
func (u *Unlogged) AppendLater(_ func(error), events ...Event) error { return u.Append(events...) }

// Payload is nil: without a host's secret, digests could be guessed.
func (u *Unlogged) Payload([]byte) *Payload { return nil }

// Close hands the last records on. What others append later fails.
func (u *Unlogged) Close(end RunEnd, last ...Event) (Seal, error) {
	err := u.Append(append(last, end)...)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	return Seal{Run: u.id, Counts: u.counts}, err
}
