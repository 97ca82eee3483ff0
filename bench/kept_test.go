package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// levels are how many sandboxes are kept while the next one is measured.
var levels = []int{0, 1, 10, 100, 300, 1000}

// level is what was seen with a number of sandboxes kept.
type level struct {
	kept        int
	next        []time.Duration // to make one more, run a program in it and end it
	memory      int64           // bytes of the machine that are used
	descriptors int             // of this process
}

// BenchmarkKept measures how the next sandbox and the machine's memory depend
// on how many sandboxes are kept, each with a program that has run in it. One
// iteration goes through all levels; use -benchtime 1x.
//
// It needs 9 descriptors a sandbox; see docs/performance.md for what else
// bounds an ordinary user.
func BenchmarkKept(b *testing.B) {
	ctx := context.Background()
	most := levels[len(levels)-1]
	for b.Loop() {
		r, err := isolate.Open(ctx, isolate.Options{MaxSandboxes: most + 1, Spares: isolate.NoSpares})
		if err != nil {
			b.Fatal(err)
		}
		if err := runWarm(ctx, r); err != nil { // makes the cell
			b.Fatal(err)
		}
		var kept []*isolate.Sandbox
		var seen []level
		for _, n := range levels {
			for len(kept) < n {
				kept = append(kept, keepOne(b, ctx, r))
			}
			l := level{kept: n, memory: usedMemory(b), descriptors: descriptors(b)}
			for range 15 {
				began := time.Now()
				if err := keepOne(b, ctx, r).Close(); err != nil {
					b.Fatal(err)
				}
				l.next = append(l.next, time.Since(began))
			}
			seen = append(seen, l)
		}
		reportKept(b, seen)
		for _, s := range kept {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	}
}

// keepOne makes a sandbox and runs a program in it.
func keepOne(b *testing.B, ctx context.Context, r *isolate.Runtime) *isolate.Sandbox {
	b.Helper()
	s, err := r.Sandbox(ctx, policy.Policy{})
	if err != nil {
		b.Fatal(err)
	}
	res, err := s.Run(ctx, isolate.Cmd{Args: []string{program}})
	if err != nil || res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
		b.Fatalf("%s %d %s: %v", res.Reason, res.ExitCode, res.Detail, err)
	}
	return s
}

func reportKept(b *testing.B, seen []level) {
	b.Helper()
	first := seen[0]
	slices.Sort(first.next)
	fmt.Printf("\n%8s %14s %8s %16s %14s\n", "kept", "next, p50", "/first", "memory each", "descriptors")
	for _, l := range seen {
		slices.Sort(l.next)
		p50 := l.next[len(l.next)/2]
		ratio := float64(p50) / float64(first.next[len(first.next)/2])
		each := int64(0)
		if l.kept > 0 {
			each = (l.memory - first.memory) / int64(l.kept)
		}
		fmt.Printf("%8d %14s %8.2f %12d KiB %14d\n", l.kept, p50.Round(10*time.Microsecond), ratio, each>>10, l.descriptors)
		b.ReportMetric(float64(p50.Microseconds()), fmt.Sprintf("next-after-%d-p50-µs", l.kept))
		b.ReportMetric(float64(each>>10), fmt.Sprintf("kept-%d-KiB/sandbox", l.kept))
	}
}

// usedMemory is what the machine cannot give away: kernel memory included.
func usedMemory(b *testing.B) int64 {
	b.Helper()
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	number := map[string]int64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if v := strings.Fields(s.Text()); len(v) >= 2 {
			number[v[0]], _ = strconv.ParseInt(v[1], 10, 64)
		}
	}
	if number["MemAvailable:"] == 0 {
		b.Fatal("cannot read how much memory is available")
	}
	return (number["MemTotal:"] - number["MemAvailable:"]) << 10
}

func descriptors(b *testing.B) int {
	b.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	return len(all)
}
