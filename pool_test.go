package isolate

import (
	"context"
	"errors"
	"testing"

	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// A caller who waits for a cell that another builds does not share what becomes
// of the other's context.
func TestCellGivenUp(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r, err := Open(t.Context(), Options{Spares: NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := Policy{Allow: []policy.Weakening{policy.WeakLimits}}
	pl, err := r.Plan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	other := &cell{ready: make(chan struct{}), used: 1}
	r.cells[pl.CellKey] = other
	ended := make(chan error, 1)
	go func() {
		res, err := r.Run(t.Context(), p, Cmd{Args: []string{"true"}})
		if err == nil && (res.Reason != ReasonExit || res.ExitCode != 0) {
			err = errors.New(res.Detail)
		}
		ended <- err
	}()
	for waits := false; !waits; {
		other.mu.Lock()
		waits = other.used == 2
		other.mu.Unlock()
	}
	r.mu.Lock()
	delete(r.cells, pl.CellKey)
	r.mu.Unlock()
	other.err, other.abandoned = context.Canceled, true
	close(other.ready)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The error of a run whose context has ended before it began is the context's,
// and nothing that this machine would lack.
func TestContextEndedBefore(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r, err := Open(t.Context(), Options{Spares: NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := Policy{Allow: []policy.Weakening{policy.WeakLimits}}
	res, err := r.Run(ctx, p, Cmd{Args: []string{"true"}})
	var refusal *plan.Refusal
	if res.Reason != ReasonCancelled || !errors.Is(err, context.Canceled) || errors.As(err, &refusal) {
		t.Errorf("%s: %v", res.Reason, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), p, Cmd{Args: []string{"true"}}); !errors.Is(err, ErrClosed) || err.Error() != "the runtime is closed" {
		t.Errorf("after Close: %v", err)
	}
}
