package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/isolate-run/isolate/bench/compare"
)

// BenchmarkKept measures how the next sandbox and the machine's memory depend
// on how many sandboxes are kept, each with a program that has run in it. One
// iteration goes through all levels; use -benchtime 1x.
//
// It needs 9 descriptors a sandbox; see docs/performance.md for what else
// bounds an ordinary user.
func BenchmarkKept(b *testing.B) {
	for b.Loop() {
		g, err := compare.Growth(context.Background(), compare.GrowthLevels(), 15)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Print(g.Markdown())
		for _, l := range g.Levels {
			b.ReportMetric(float64(l.P50.Microseconds()), fmt.Sprintf("next-after-%d-p50-µs", l.Kept))
			b.ReportMetric(float64(l.MemoryEach>>10), fmt.Sprintf("kept-%d-KiB/sandbox", l.Kept))
		}
	}
}
