package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
)

// load is one contender with a number of workers that use it at once.
type load struct {
	contender
	workers int
	// settle waits until what goes on behind the answers is done; nil means
	// that nothing does.
	settle func()

	rates []float64 // runs a second, one value a block
	busy  float64   // seconds of processors that the machine used in all blocks
	runs  int64     // in all blocks
}

// block is how long one load runs before the next has its turn.
const block = 400 * time.Millisecond

// BenchmarkThroughput runs programs from 1, 2, 4 and 16 workers that each start
// the next as soon as the last has ended, in sandboxes of isolate and of
// bubblewrap. One iteration is one block of every load, in turn, so that a
// machine whose speed drifts slows all of them alike. A block of isolate's ends
// when its sandboxes are taken down and as many are made ahead as before: the
// work behind the answers counts. Use -benchtime 8x or more.
//
// Beside the rates it prints how long the machine's processors were busy per
// run: a rate that does not grow with the workers while they are idle is one
// that something serializes.
func BenchmarkThroughput(b *testing.B) {
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	}()
	warm := contender{"isolate", "all: see isolate exec --explain", func() error { return runWarm(ctx, r) }}
	var all []*load
	for _, workers := range []int{1, 2, 4, 16} {
		all = append(all, &load{contender: warm, workers: workers, settle: func() { settle(r) }})
		if peer, ok := bubblewrap(b, program); ok {
			all = append(all, &load{contender: peer, workers: workers})
		}
	}
	for _, l := range all { // cold caches are not what is measured
		l.block(b)
		l.rates, l.busy, l.runs = nil, 0, 0
	}
	for b.Loop() {
		for _, l := range all {
			l.block(b)
		}
	}
	reportThroughput(b, all)
}

// block lets the workers run for a while and remembers their rate.
func (l *load) block(b *testing.B) {
	b.Helper()
	busy := busyTime(b)
	began := time.Now()
	until := began.Add(block)
	var runs atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for time.Now().Before(until) {
				if err := l.run(); err != nil {
					failed.Store(&err)
					return
				}
				runs.Add(1)
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		b.Fatalf("%s, %d workers: %v", l.name, l.workers, *err)
	}
	if l.settle != nil {
		l.settle()
	}
	l.rates = append(l.rates, float64(runs.Load())/time.Since(began).Seconds())
	l.busy += busyTime(b) - busy
	l.runs += runs.Load()
}

// settle waits until no sandbox is in use or being taken down, and as many are
// made ahead as there will be.
func settle(r *isolate.Runtime) {
	for quiet := 0; quiet < 3; time.Sleep(200 * time.Microsecond) {
		s := r.Stats()
		if s.Sandboxes == 0 && s.Preparing == 0 {
			quiet++
		} else {
			quiet = 0
		}
	}
}

// busyTime is how long the machine's processors were busy since it started, in
// seconds of all together.
func busyTime(b *testing.B) float64 {
	b.Helper()
	f, err := os.Open("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	const idle, iowait, steal = 3, 4, 7 // columns of proc(5)
	var ticks int64
	for i, s := range strings.Fields(line)[1:] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		if i != idle && i != iowait && i <= steal {
			ticks += n
		}
	}
	return float64(ticks) / 100 // USER_HZ
}

func reportThroughput(b *testing.B, all []*load) {
	rate := map[string]float64{}
	for _, l := range all {
		slices.Sort(l.rates)
		rate[l.unit()] = l.rates[len(l.rates)/2]
	}
	fmt.Printf("\n%-12s %8s %10s %14s %14s %12s\n", program, "workers", "runs/s", "processor ms", "/one worker", "/bubblewrap")
	for _, l := range all {
		mine := rate[l.unit()]
		one := load{contender: l.contender, workers: 1}
		peer := "-"
		if other, ok := rate[(&load{contender: contender{name: "bubblewrap"}, workers: l.workers}).unit()]; ok {
			peer = fmt.Sprintf("%.2f", mine/other)
		}
		fmt.Printf("%-12s %8d %10.0f %14.2f %14.2f %12s\n", l.name, l.workers, mine, 1000*l.busy/float64(l.runs), mine/rate[one.unit()], peer)
		b.ReportMetric(mine, l.unit())
	}
}

// unit names the metric of a load in benchstat's way.
func (l *load) unit() string { return fmt.Sprintf("%s-%d-runs/s", l.name, l.workers) }
