package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge"
)

// BenchmarkAudit measures what the log costs: a tool call from a Python program
// with and without one, and runs at a rate of 100 a second. One iteration is a
// round of calls of both programs and a stretch of runs of both Runtimes, so
// that a machine whose speed drifts slows both alike. The log is in the
// directory that ISOLATE_BENCH_DIR names, or in a temporary one: it must be on
// the disk that is meant. Use -benchtime 10x or more.
func BenchmarkAudit(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sides := []*auditSide{{name: "not recorded", runtime: open(b, nil)}, {name: "recorded", runtime: open(b, openLog(b))}}
	for _, s := range sides {
		s.caller = inside(b, ctx, s.runtime, noop(b), s.name, "/usr/bin/python3", "calls.py")
		s.caller.round(b)
		s.caller.took = nil // the first round imports and fills caches
	}
	disk := bareDisk(b)
	var synced []time.Duration
	for b.Loop() {
		for _, s := range sides {
			s.caller.round(b)
		}
		for range sides[0].caller.calls {
			time.Sleep(500 * time.Microsecond) // as a program that calls leaves the disk alone
			began := time.Now()
			disk()
			synced = append(synced, time.Since(began))
		}
		for _, s := range sides {
			s.paced(ctx, b)
		}
	}
	fmt.Printf("\n%-14s %10s %10s %12s %12s %12s\n", "", "call p50", "call p99", "run p50", "run p99", "runs/s")
	var call, rate [2]float64
	for i, s := range sides {
		slices.Sort(s.caller.took)
		slices.Sort(s.took)
		call[i] = float64(middle(s.caller.took).Microseconds())
		rate[i] = float64(s.ended.Load()) / s.spent.Seconds()
		fmt.Printf("%-14s %10s %10s %12s %12s %12.1f\n", s.name, middle(s.caller.took), last(s.caller.took), middle(s.took), last(s.took), rate[i])
		s.caller.end()
	}
	slices.Sort(synced)
	fmt.Printf("%-14s %10s %10s\n", "disk alone", middle(synced), last(synced))
	b.ReportMetric(float64(middle(synced).Microseconds()), "disk-p50-µs")
	b.ReportMetric(call[1]-call[0], "call-cost-p50-µs")
	b.ReportMetric(rate[1]/rate[0], "runs-ratio")
}

// auditSide is one half of the comparison.
type auditSide struct {
	name    string
	runtime *isolate.Runtime
	caller  *caller
	mu      sync.Mutex
	took    []time.Duration // of runs
	ended   atomic.Int64
	spent   time.Duration
}

// paced starts a run every 10 ms for half a second and waits for their ends.
// The time that it takes is part of the rate.
func (s *auditSide) paced(ctx context.Context, b *testing.B) {
	const runs, every = 50, 10 * time.Millisecond
	var all sync.WaitGroup
	began := time.Now()
	for i := range runs {
		time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
		all.Go(func() {
			start := time.Now()
			res, err := s.runtime.Run(ctx, isolate.Policy{}, isolate.Cmd{Args: []string{program}})
			if err != nil || res.ExitCode != 0 {
				b.Errorf("%s: %+v, %v", s.name, res, err)
				return
			}
			s.ended.Add(1)
			s.mu.Lock()
			s.took = append(s.took, time.Since(start))
			s.mu.Unlock()
		})
	}
	all.Wait()
	s.spent += time.Since(began)
}

// end lets the program end, and waits until its run has.
func (c *caller) end() {
	c.in.Close()
	for c.out.Scan() {
	}
}

func middle(sorted []time.Duration) time.Duration { return at(sorted, 50) }

func last(sorted []time.Duration) time.Duration { return at(sorted, 99) }

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[len(sorted)*percent/100].Round(time.Microsecond)
}

func open(b *testing.B, l *audit.Log) *isolate.Runtime {
	r, err := isolate.Open(context.Background(), isolate.Options{Spares: 2, Audit: l})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closed(b, r) })
	return r
}

// onDisk is a directory on the disk that is meant.
func onDisk(b *testing.B) string {
	dir, err := os.MkdirTemp(os.Getenv("ISOLATE_BENCH_DIR"), "isolate-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bareDisk appends a kilobyte to a file and makes it durable: what one write of
// a log costs without the log.
func bareDisk(b *testing.B) func() {
	f, err := os.Create(filepath.Join(onDisk(b), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closed(b, f) })
	kilobyte := make([]byte, 1024)
	return func() {
		_, err := f.Write(kilobyte)
		if err == nil {
			err = unix.Fdatasync(int(f.Fd()))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func openLog(b *testing.B) *audit.Log {
	dir := onDisk(b)
	key, err := audit.LoadKey(filepath.Join(dir, "key"))
	if err != nil {
		b.Fatal(err)
	}
	l, err := audit.Open(filepath.Join(dir, "log"), audit.Options{Key: key})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closed(b, l) })
	return l
}

func closed(b *testing.B, c io.Closer) {
	if err := c.Close(); err != nil {
		b.Error(err)
	}
}

// noop is a tool that does nothing, without limits of calls.
func noop(b *testing.B) *isolate.Tools {
	tools := &isolate.Tools{Options: bridge.Options{MaxCalls: bridge.NoLimit, TotalRequestBytes: 1 << 40, TotalResponseBytes: 1 << 40}}
	type numbers struct {
		N int `json:"n"`
	}
	err := isolate.AddTool(tools, isolate.Tool{Name: "noop"}, func(_ context.Context, in numbers) (numbers, error) { return in, nil })
	if err != nil {
		b.Fatal(err)
	}
	return tools
}
