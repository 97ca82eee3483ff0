package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bench/result"
)

// GrowthLevels are how many sandboxes are kept while the next one is measured.
func GrowthLevels() []int { return []int{0, 1, 10, 100, 300, 1000} }

// quickKept is the most that are kept with little effort.
const quickKept = 50

// levelShare is the part of the rounds that each level has.
const levelShare = 10

func (c *comparison) growth(ctx context.Context) *result.Growth {
	levels := GrowthLevels()
	if c.options.Effort == Quick {
		levels = append(slices.DeleteFunc(levels, func(n int) bool { return n > quickKept }), quickKept)
	}
	g, err := Growth(ctx, levels, c.options.rounds(levelShare))
	if err != nil {
		g.Why = err.Error()
	}
	return &g
}

// Growth measures how the next sandbox and the machine's memory depend on how
// many sandboxes are kept, each with a program that has run in it. levels are
// ascending, rounds is how often the next one is made at each. The figures of
// the levels before an error are returned with it.
func Growth(ctx context.Context, levels []int, rounds int) (g result.Growth, err error) {
	g.Rounds = rounds
	r, err := isolate.Open(ctx, isolate.Options{MaxSandboxes: levels[len(levels)-1] + 1, Spares: isolate.NoSpares})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := endOne(ctx, r); err != nil { // makes the cell
		return g, err
	}
	var kept []*isolate.Sandbox
	defer func() {
		for _, s := range kept {
			err = errors.Join(err, s.Close())
		}
	}()
	var first int64
	for _, n := range levels {
		for len(kept) < n {
			s, err := keepOne(ctx, r)
			if err != nil {
				return g, fmt.Errorf("cannot keep sandbox %d: %w", len(kept)+1, err)
			}
			kept = append(kept, s)
		}
		l := result.Level{Kept: n, Descriptors: descriptors()}
		used := usedMemory()
		if n == 0 {
			first = used
		} else if first > 0 && used > first {
			l.MemoryEach = (used - first) / int64(n)
		}
		for range rounds {
			began := time.Now()
			if err := endOne(ctx, r); err != nil {
				return g, fmt.Errorf("cannot make one more than %d: %w", n, err)
			}
			l.Samples = append(l.Samples, time.Since(began))
		}
		g.Levels = append(g.Levels, l)
		g.Settle()
	}
	last := g.Levels[len(g.Levels)-1]
	g.Bars = []result.Bar{result.AtMost(fmt.Sprintf("after %d kept ≤ 2 × the first", last.Kept), 2, last.ToFirst)}
	return g, nil
}

// keepOne makes a sandbox and runs a program in it.
func keepOne(ctx context.Context, r *isolate.Runtime) (*isolate.Sandbox, error) {
	s, err := r.Sandbox(ctx, policyFor(trueProgram))
	if err != nil {
		return nil, err
	}
	if err := unexpected(s.Run(ctx, isolate.Cmd{Args: trueProgram.args})); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func endOne(ctx context.Context, r *isolate.Runtime) error {
	s, err := keepOne(ctx, r)
	if err != nil {
		return err
	}
	return s.Close()
}
