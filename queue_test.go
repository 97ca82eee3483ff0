package isolate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/isolate-run/isolate/container"
)

// waiters starts n callers that wait in a known order and returns where each
// says that its turn has come.
func waiters(t *testing.T, q *queue, n int) []chan error {
	t.Helper()
	var turns []chan error
	for i := range n {
		turn := make(chan error, 1)
		turns = append(turns, turn)
		go func() { turn <- q.acquire(t.Context(), nil) }()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			q.mu.Lock()
			waiting := q.waiting.Len()
			q.mu.Unlock()
			if waiting == i+1 {
				break
			}
			if time.Since(began) > 60*time.Second {
				t.Fatalf("caller %d does not wait", i)
			}
		}
	}
	return turns
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	q := newQueue(1, 8)
	if err := q.acquire(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	turns := waiters(t, q, 8)
	for i, turn := range turns {
		q.release()
		if err := <-turn; err != nil {
			t.Fatalf("caller %d: %v", i, err)
		}
		for j, later := range turns[i+1:] {
			select {
			case <-later:
				t.Fatalf("caller %d came before caller %d", i+1+j, i)
			default:
			}
		}
	}
	q.release()
	if q.used != 0 || q.waiting.Len() != 0 {
		t.Errorf("%d used and %d waiting at the end", q.used, q.waiting.Len())
	}
}

func TestQueueTurnsAway(t *testing.T) {
	q := newQueue(1, 1)
	if err := q.acquire(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	turn := waiters(t, q, 1)[0]
	var over *OverCapacityError
	if err := q.acquire(t.Context(), nil); !errors.As(err, &over) || over.Sandboxes != 1 || over.Waiting != 1 {
		t.Errorf("third caller: %v", err)
	}
	q.release()
	if err := <-turn; err != nil {
		t.Fatal(err)
	}
}

// TestQueueCancel: who goes away while waiting takes nobody's turn.
func TestQueueCancel(t *testing.T) {
	q := newQueue(1, 8)
	if err := q.acquire(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- q.acquire(ctx, nil) }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	closing := make(chan struct{})
	close(closing)
	if err := q.acquire(t.Context(), closing); !errors.Is(err, container.ErrClosed) {
		t.Errorf("closing: %v", err)
	}
	turn := waiters(t, q, 1)[0]
	q.release()
	if err := <-turn; err != nil {
		t.Fatal(err)
	}
	q.release()
	if q.used != 0 {
		t.Errorf("%d used at the end", q.used)
	}
}
