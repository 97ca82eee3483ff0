package isolate

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/plan"
)

// cell is a cell in the pool with its idle seats.
type cell struct {
	ready chan struct{} // closed when c or err is set
	c     *container.Cell
	err   error
	// abandoned says of the error that whoever built it wanted it no more.
	abandoned bool

	mu     sync.Mutex
	idle   []*container.Seat
	spares []*box    // made ahead, oldest first
	making int       // spares being made
	used   int       // sandboxes and callers that hold it
	last   time.Time // when it was last left
	gone   bool      // closed: nothing is kept any more
	// retired is whether it makes no further sandbox and is not in the pool any
	// more; who leaves it last closes it.
	retired bool
}

// cell returns the cell for a plan, building it if need be; the caller leaves
// it when done. Who waits for one that another caller builds and gives up
// begins anew, and so does who finds one that has ended.
func (r *Runtime) cell(ctx context.Context, pl plan.Plan) (*cell, error) {
	for {
		c, err := r.sharedCell(ctx, pl)
		if err == errCellEnded {
			continue
		}
		if c == nil || err == nil {
			return c, err
		}
		if !c.abandoned || ctx.Err() != nil {
			return nil, err
		}
	}
}

// errCellEnded is that a cell of the pool had ended, and is out of it.
var errCellEnded = errors.New("the cell has ended")

// sharedCell is one try of cell. With an error it returns the cell that could
// not be built, if it has waited for its end.
func (r *Runtime) sharedCell(ctx context.Context, pl plan.Plan) (*cell, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, errRuntimeClosed
	}
	c, ok := r.cells[pl.CellKey]
	if ok {
		c.enter()
		r.mu.Unlock()
		if c, err := r.wait(ctx, c); err != nil || !c.c.Ended() {
			return c, err
		}
		r.retire(c)
		r.leave(c)
		return nil, errCellEnded
	}
	evicted := r.evict()
	c = &cell{ready: make(chan struct{}), used: 1}
	r.cells[pl.CellKey] = c
	r.mu.Unlock()
	if evicted != nil {
		r.note(evicted.close())
	}

	c.c, c.err = r.newCell(ctx, pl)
	if c.err != nil {
		c.abandoned = ctx.Err() != nil
		r.mu.Lock()
		delete(r.cells, pl.CellKey)
		r.mu.Unlock()
	}
	close(c.ready)
	return r.wait(ctx, c)
}

// newCell makes a cell of the one that Open has begun, or from the start.
func (r *Runtime) newCell(ctx context.Context, pl plan.Plan) (*container.Cell, error) {
	if begun := r.takeBegun(); begun != nil {
		return begun.Furnish(ctx, pl)
	}
	return r.base.NewCell(ctx, pl)
}

// takeBegun takes the cell that Open has begun; nil if there is none any more.
func (r *Runtime) takeBegun() *container.Blank {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := r.begun
	r.begun = nil
	return begun
}

// evict takes the cell that has been idle longest out of a full pool. With no
// idle one the pool grows over its bound for a while: the queue bounds it.
func (r *Runtime) evict() *cell {
	if len(r.cells) < r.options.MaxCells {
		return nil
	}
	var oldest string
	var left time.Time
	for key, c := range r.cells {
		if last, idle := c.idleSince(); idle && (oldest == "" || last.Before(left)) {
			oldest, left = key, last
		}
	}
	c := r.cells[oldest]
	delete(r.cells, oldest)
	return c
}

// wait waits for the cell to be built.
func (r *Runtime) wait(ctx context.Context, c *cell) (*cell, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		r.leave(c)
		return nil, ctx.Err()
	}
	return c, c.err
}

func (c *cell) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used++
}

// leave ends what enter began. The last to leave sets the clock of an idle
// cell, and of the Runtime if it has none running.
func (r *Runtime) leave(c *cell) {
	c.mu.Lock()
	c.used--
	c.last = time.Now()
	idle, retired := c.used == 0, c.retired
	c.mu.Unlock()
	if !idle {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if retired {
		r.behind.Go(func() { r.note(c.close()) })
		return
	}
	if r.idle == nil && !r.closed {
		r.idle = time.AfterFunc(r.options.CellIdle, r.endIdle)
	}
}

// retire takes a cell out of the pool, so that the next run gets a new one. It is
// closed when nobody is in it any more.
func (r *Runtime) retire(c *cell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.cells, func(_ string, in *cell) bool { return in == c })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == 0 && !c.retired && !c.gone {
		r.behind.Go(func() { r.note(c.close()) })
	}
	c.retired = true
}

// idleSince says when the cell was last left, if nobody is in it.
func (c *cell) idleSince() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.used == 0
}

// endIdle ends the cells that were idle for too long and sets the clock for
// the next one.
func (r *Runtime) endIdle() {
	r.mu.Lock()
	r.idle = nil
	if r.closed {
		r.mu.Unlock()
		return
	}
	var over []*cell
	next := time.Duration(-1)
	for key, c := range r.cells {
		last, idle := c.idleSince()
		if !idle {
			continue // who leaves it sets the clock
		}
		left := r.options.CellIdle - time.Since(last)
		if left <= 0 {
			delete(r.cells, key)
			over = append(over, c)
		} else if next < 0 || left < next {
			next = left
		}
	}
	if next >= 0 {
		r.idle = time.AfterFunc(next, r.endIdle)
	}
	r.behind.Add(1) // Close waits for it
	r.mu.Unlock()
	defer r.behind.Done()
	for _, c := range over {
		r.note(c.close())
	}
}

// seat takes an idle seat of the cell or makes one.
func (r *Runtime) seat(ctx context.Context, c *cell) (*container.Seat, error) {
	for s := c.idleSeat(); s != nil; s = c.idleSeat() {
		if !s.Ended() {
			return s, nil
		}
		r.note(s.Close())
	}
	return c.c.NewSeat(ctx)
}

// idleSeat takes an idle seat; nil if there is none.
func (c *cell) idleSeat() *container.Seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	s := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return s
}

// spare takes a sandbox of the cell that was made ahead for a plan; nil if there
// is none.
func (r *Runtime) spare(c *cell, digest string) *box {
	for b := c.spare(digest); b != nil; b = c.spare(digest) {
		if !b.sandbox.Ended() {
			return b
		}
		r.note(b.discard())
	}
	return nil
}

// spare is Runtime.spare, of one that may have ended.
func (c *cell) spare(digest string) *box {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.spares {
		if b.plan.Digest == digest {
			c.spares = append(c.spares[:i], c.spares[i+1:]...)
			return b
		}
	}
	return nil
}

// wantSpare tells whether one more is wanted for a plan, and counts it as being
// made: addSpare must follow.
func (c *cell) wantSpare(digest string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.making
	for _, b := range c.spares {
		if b.plan.Digest == digest {
			have++
		}
	}
	if c.gone || have >= limit {
		return false
	}
	c.making++
	return true
}

// addSpare keeps a sandbox for later, or nothing if b is nil. It returns what
// has to go for it: the oldest of other plans over twice what a plan may have.
func (c *cell) addSpare(b *box) (out []*box) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.making--
	if b == nil {
		return nil
	}
	if c.gone {
		return []*box{b}
	}
	c.spares = append(c.spares, b)
	if limit := 2 * b.runtime.options.Spares; len(c.spares) > limit {
		n := len(c.spares) - limit
		out = append(out, c.spares[:n]...)
		c.spares = append([]*box(nil), c.spares[n:]...)
	}
	return out
}

// release gives a seat back, or ends it if it cannot be used again, and ends
// those that are too many now.
func (c *cell) release(s *container.Seat) error {
	if err := s.Again(); err != nil {
		return errors.Join(err, s.Close())
	}
	c.mu.Lock()
	c.idle = append(c.idle, s)
	limit := max(minIdleSeats(), c.used)
	if c.gone {
		limit = 0
	}
	n := max(0, len(c.idle)-limit)
	surplus := slices.Clone(c.idle[:n])
	c.idle = slices.Delete(c.idle, 0, n)
	c.mu.Unlock()
	var errs []error
	for _, s := range surplus {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// minIdleSeats is how many seats may wait for work in any case. As many more may
// as sandboxes are in use; a burst of runs does not leave processes, cgroups and
// descriptors for good.
func minIdleSeats() int { return max(8, 2*runtime.NumCPU()) }

// kill begins to end the cell and all its sandboxes.
func (c *cell) kill() {
	if <-c.ready; c.err == nil {
		c.c.Kill()
	}
}

// close ends the cell, its processes, its seats' cgroups.
func (c *cell) close() error {
	<-c.ready
	if c.err != nil {
		return nil
	}
	c.mu.Lock()
	c.gone = true
	spares := c.spares
	c.spares = nil
	c.mu.Unlock()
	var errs []error
	for _, b := range spares {
		errs = append(errs, b.discard())
	}
	errs = append(errs, c.c.Close())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.idle {
		errs = append(errs, s.Close())
	}
	c.idle = nil
	return errors.Join(errs...)
}

// Prepare makes the cell of a policy and its sandboxes ahead, so that the
// first run under it is as fast as the others.
func (r *Runtime) Prepare(ctx context.Context, p Policy) error {
	pl, err := r.Plan(ctx, p)
	if err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.calls.Done()
	c, err := r.cell(ctx, pl)
	if err != nil {
		return explain(ctx, r.options.Dir, err)
	}
	defer r.leave(c)
	for range max(0, r.options.Spares) {
		r.prepare(c, pl)
	}
	return nil
}
