package isolate

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// OverCapacityError means that a run was turned away: as many sandboxes as may
// exist are in use, and as many callers as may wait are waiting.
type OverCapacityError struct {
	// Sandboxes is how many are in use, Waiting how many callers wait.
	Sandboxes, Waiting int
}

func (e *OverCapacityError) Error() string {
	return fmt.Sprintf("cannot start sandbox: all %d are in use and %d callers wait already; try again later, or raise the number of sandboxes", e.Sandboxes, e.Waiting)
}

// queue hands out the right to have a sandbox, first come, first served.
type queue struct {
	size  int // rights
	limit int // callers that may wait

	mu      sync.Mutex
	used    int
	waiting list.List // of chan struct{}, closed when the right is theirs
	waited  time.Duration
	refused uint64
}

func newQueue(size, limit int) *queue { return &queue{size: size, limit: limit} }

// acquire waits for a right; release gives it back. It fails when ctx ends,
// when closing is closed, and at once when too many wait.
func (q *queue) acquire(ctx context.Context, closing <-chan struct{}) error {
	q.mu.Lock()
	if q.used < q.size {
		q.used++
		q.mu.Unlock()
		return nil
	}
	if q.waiting.Len() >= q.limit {
		q.refused++
		err := &OverCapacityError{Sandboxes: q.used, Waiting: q.waiting.Len()}
		q.mu.Unlock()
		return err
	}
	turn := make(chan struct{})
	place := q.waiting.PushBack(turn)
	q.mu.Unlock()

	began := time.Now()
	var err error
	select {
	case <-turn:
	case <-ctx.Done():
		err = fmt.Errorf("cannot start sandbox: %d are running: %w", q.size, ctx.Err())
	case <-closing:
		err = errRuntimeClosed
	}
	q.mu.Lock()
	q.waited += time.Since(began)
	if err != nil {
		q.waiting.Remove(place)
	}
	q.mu.Unlock()
	if err != nil {
		select {
		case <-turn: // it came at the same moment: the next in line has it
			q.release()
		default:
		}
	}
	return err
}

// release gives a right to who waits longest, or back.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.waiting.Front()
	if first == nil {
		q.used--
		return
	}
	q.waiting.Remove(first)
	close(first.Value.(chan struct{}))
}
