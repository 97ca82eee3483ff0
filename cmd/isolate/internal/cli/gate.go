package cli

import (
	"context"
	"sync"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/approve"
)

// gate keeps the program's output from a terminal while a person is asked
// there. A program that could write below a question could put another one in
// its place, and be allowed what nobody was shown.
type gate struct {
	mu     sync.Mutex
	change sync.Cond
	asking int // questions that are open
	inside int // writes that go on
}

func newGate() *gate {
	g := &gate{}
	g.change.L = &g.mu
	return g
}

// pass waits until nobody is asked; leave must follow. A nil gate is open.
func (g *gate) pass() (leave func()) {
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.asking > 0 {
		g.change.Wait()
	}
	g.inside++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
		g.change.Broadcast()
	}
}

// shut lets no more writes begin and waits for those that go on.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asking++
	for g.inside > 0 {
		g.change.Wait()
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.asking--
		g.change.Broadcast()
	}
}

// guard is an Approver behind which the gate is shut, if it asks at a terminal.
func (g *gate) guard(a bridge.Approver) bridge.Approver {
	return whileQuiet(a, func() (func(), error) { return g.shut(), nil })
}

// whileQuiet is an Approver that asks only while a gate is shut, if it asks at a
// terminal. It does not ask if the gate cannot be.
func whileQuiet(a bridge.Approver, shut func() (open func(), err error)) bridge.Approver {
	t, ok := a.(*approve.Terminal)
	if !ok {
		return a
	}
	return approve.Func(func(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
		open, err := shut()
		if err != nil {
			return bridge.Decision{}, err
		}
		defer open()
		return t.Approve(ctx, q)
	})
}
