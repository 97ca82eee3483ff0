package compare

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isolate-run/isolate/bench/result"
)

// workers are how many start a program at once, each the next as soon as the
// last has ended.
var workers = []int{1, 2, 4, 16}

// blockShare is the part of the rounds that is had as blocks.
const blockShare = 20

// throughput measures how many programs a second each contender runs. A block
// of isolate's library ends when its sandboxes are taken down and as many are
// made ahead as before: the work behind the answers counts.
func (c *comparison) throughput(ctx context.Context) *result.Throughput {
	t := &result.Throughput{Runs: trueProgram.args[0], Block: 400 * time.Millisecond, Blocks: c.options.rounds(blockShare), Workers: workers}
	if c.options.Effort == Quick {
		t.Block /= 4
	}
	var loads []*load
	for _, who := range c.all {
		if who.kind == everywhere || who.name == servedName {
			loads = append(loads, &load{entrant: c.enter(ctx, who, trueProgram), rates: make([][]float64, len(workers))})
		}
	}
	for range t.Blocks {
		for _, i := range c.shuffle(len(loads) * len(workers)) {
			loads[i/len(workers)].block(ctx, i%len(workers), t.Block)
		}
	}
	for _, l := range loads {
		row := result.RateRow{Contender: l.who.name, Why: l.why}
		if l.why == "" {
			row.Samples = l.rates
		}
		t.Rows = append(t.Rows, row)
	}
	t.Settle()
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Contender == isolateName && r.Why == "" {
			r.Bars = rateBars(t)
		}
	}
	return t
}

// load is a contender that several workers use.
type load struct {
	*entrant
	rates [][]float64 // in the order of workers, one value a block
}

// block lets workers[at] of them run for a while.
func (l *load) block(ctx context.Context, at int, length time.Duration) {
	if l.why != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	began := time.Now()
	until := began.Add(length)
	var runs atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range workers[at] {
		all.Go(func() {
			for time.Now().Before(until) && failed.Load() == nil {
				if err := l.start(ctx, &counter{}); err != nil {
					failed.Store(&err)
					return
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	if l.who.kind == everywhere && l.who.settle != nil {
		l.who.settle(ctx)
	}
	if err := failed.Load(); err != nil {
		l.why = (*err).Error()
		return
	}
	l.rates[at] = append(l.rates[at], float64(runs.Load())/time.Since(began).Seconds())
}

// rateBars are those of the design, of what was measured.
func rateBars(t *result.Throughput) []result.Bar {
	var bars []result.Bar
	own := func(n int) float64 { return t.Rate(isolateName, n) }
	if peer := t.Rate(result.Peer, 2); peer > 0 {
		bars = append(bars, result.AtLeast("2 workers ≥ 2 × bubblewrap's", 2, own(2)/peer))
	}
	if own(1) > 0 && own(2) > 0 {
		bars = append(bars,
			result.AtLeast("≥ 1.3 × one worker's", 1.3, own(2)/own(1)),
			result.AtLeast("16 workers ≥ 0.9 × 2 workers'", 0.9, own(16)/own(2)))
	}
	return bars
}
