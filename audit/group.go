package audit

import (
	"sync"
	"time"
)

// group lets callers that come at the same time share one write: whoever finds
// nobody writing writes for all who wait, at once. What nobody waits for goes
// with the next write, and after laterDelay has one of its own.
type group struct {
	mu      sync.Mutex
	ended   *sync.Cond
	waiting []*request
	writing bool
	timer   *time.Timer // runs flush; nil if nothing waits for it
	// broken is why nothing is written any more, over why nothing new is taken.
	broken, over error
	// write makes a batch durable.
	write func([]entry) error
}

type request struct {
	entries []entry
	done    bool
	err     error
	failed  func(error) // of what nobody waits for; nil otherwise
}

// laterDelay is how long what nobody waits for stays without a write of its
// own: long enough for the next call of a program that makes one after the
// other, which takes it along.
const laterDelay = 10 * time.Millisecond

// maxBatch bounds a write in records; a request is never split.
const maxBatch = 256

func newGroup(write func([]entry) error) *group {
	g := &group{write: write}
	g.ended = sync.NewCond(&g.mu)
	return g
}

// do returns when the entries are durable, or will not be.
func (g *group) do(entries []entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != nil {
		return g.over
	}
	return g.wait(entries)
}

// finish is do for the last entries: later callers get the error over.
func (g *group) finish(over error, entries []entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != nil {
		return g.over
	}
	g.over = over
	return g.wait(entries)
}

// later puts the entries in their place and returns at once: they are durable
// when those of a later do are. If that fails, failed is called. With a whole
// batch waiting already it is do.
func (g *group) later(entries []entry, failed func(error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over != nil:
		return g.over
	case g.broken != nil:
		return g.broken
	case len(g.waiting) >= maxBatch:
		return g.wait(entries)
	}
	g.waiting = append(g.waiting, &request{entries: entries, failed: failed})
	if g.timer == nil {
		g.timer = time.AfterFunc(laterDelay, g.flush)
	}
	return nil
}

// flush writes what still waits.
func (g *group) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = nil
	for g.writing {
		g.ended.Wait()
	}
	for len(g.waiting) > 0 {
		g.lead()
	}
}

func (g *group) wait(entries []entry) error {
	r := &request{entries: entries}
	g.waiting = append(g.waiting, r)
	for !r.done && g.writing {
		g.ended.Wait()
	}
	for !r.done {
		g.lead()
	}
	return r.err
}

// lead writes what waits, for all.
func (g *group) lead() {
	var batch []entry
	n := 0
	for n < len(g.waiting) && (n == 0 || len(batch)+len(g.waiting[n].entries) <= maxBatch) {
		batch = append(batch, g.waiting[n].entries...)
		n++
	}
	served := g.waiting[:n]
	g.waiting = append([]*request(nil), g.waiting[n:]...)
	if g.timer != nil && len(g.waiting) == 0 {
		g.timer.Stop()
		g.timer = nil
	}
	err := g.broken
	if err == nil && len(batch) > 0 {
		g.writing = true
		g.mu.Unlock()
		err = g.write(batch)
		g.mu.Lock()
		g.writing = false
	}
	if err != nil {
		g.broken = err
	}
	for _, r := range served {
		r.done, r.err = true, err
	}
	g.ended.Broadcast()
	if err == nil {
		return
	}
	g.mu.Unlock()
	for _, r := range served {
		if r.failed != nil {
			r.failed(err)
		}
	}
	g.mu.Lock()
}

// alone calls f while nobody writes.
func (g *group) alone(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.writing {
		g.ended.Wait()
	}
	if g.broken != nil {
		return g.broken
	}
	return f()
}
