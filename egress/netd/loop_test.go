package netd

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// Who yields once in a while has no turn given to others: the loop would pause
// with a packet in the stack, for a millisecond.
func TestYieldGivesEveryoneATurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	wake := make(chan struct{})
	var turns atomic.Int64
	go func() {
		for range wake {
			turns.Add(1)
		}
	}()
	defer close(wake)
	for i := range int64(1000) {
		wake <- struct{}{}
		yield()
		if got := turns.Load(); got != i+1 {
			t.Fatalf("after %d times another goroutine had %d turns", i+1, got)
		}
	}
}
