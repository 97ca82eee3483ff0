package isolate

import (
	"context"
	"errors"
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

	mu   sync.Mutex
	idle []*container.Seat
	used int       // sandboxes and callers that hold it
	last time.Time // when it was last left
}

// cell returns the cell for a plan, building it if need be; the caller leaves
// it when done.
func (r *Runtime) cell(ctx context.Context, pl plan.Plan) (*cell, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, container.ErrClosed
	}
	c, ok := r.cells[pl.CellKey]
	if ok {
		c.enter()
		r.mu.Unlock()
		return c.wait(ctx)
	}
	evicted := r.evict()
	c = &cell{ready: make(chan struct{}), used: 1}
	r.cells[pl.CellKey] = c
	r.mu.Unlock()
	if evicted != nil {
		r.note(evicted.close())
	}

	c.c, c.err = r.base.NewCell(ctx, pl)
	if c.err != nil {
		r.mu.Lock()
		delete(r.cells, pl.CellKey)
		r.mu.Unlock()
	}
	close(c.ready)
	return c.wait(ctx)
}

// evict takes the cell that has been idle longest out of a full pool. With no
// idle one the pool grows over its bound for a while: the slots bound it.
func (r *Runtime) evict() *cell {
	if len(r.cells) < r.options.MaxCells {
		return nil
	}
	var oldest string
	for key, c := range r.cells {
		c.mu.Lock()
		idle := c.used == 0
		c.mu.Unlock()
		if idle && (oldest == "" || c.last.Before(r.cells[oldest].last)) {
			oldest = key
		}
	}
	c := r.cells[oldest]
	delete(r.cells, oldest)
	return c
}

func (c *cell) wait(ctx context.Context) (*cell, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		c.leave()
		return nil, ctx.Err()
	}
	if c.err != nil {
		return nil, c.err
	}
	return c, nil
}

func (c *cell) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used++
}

func (c *cell) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used--
	c.last = time.Now()
}

// seat takes an idle seat or makes one.
func (c *cell) seat(ctx context.Context) (*container.Seat, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		s := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return s, nil
	}
	c.mu.Unlock()
	return c.c.NewSeat(ctx)
}

// release gives a seat back, or ends it if it cannot be used again.
func (c *cell) release(s *container.Seat) error {
	defer c.leave()
	if !s.Reusable() {
		return s.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
	return nil
}

// close ends the cell, its processes, its seats' cgroups.
func (c *cell) close() error {
	<-c.ready
	if c.err != nil {
		return nil
	}
	err := c.c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{err}
	for _, s := range c.idle {
		errs = append(errs, s.Close())
	}
	c.idle = nil
	return errors.Join(errs...)
}
