package stub_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// BenchmarkRoundTrip is a call of a tool that does nothing, from the generated
// modules, without a sandbox around.
func BenchmarkRoundTrip(b *testing.B) {
	testenv.Require(b, testenv.Python3, testenv.Node)
	for _, c := range []struct{ name, program, script, mode string }{
		{"python", python, "latency.py", "direct"},
		{"python-aio", python, "latency.py", "tasks"},
		{"node", "node", "latency.cjs", "promises"},
		{"node-sync", "node", "latency.cjs", "direct"},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := serve(b, bridge.Options{MaxCalls: bridge.NoLimit}, echo("nothing", "", nil, nil))
			script, err := filepath.Abs(filepath.Join("testdata", c.script))
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var times []float64
			for _, f := range strings.Fields(h.output(b, c.program, script, c.mode, strconv.Itoa(b.N))) {
				ns, err := strconv.ParseFloat(f, 64)
				if err != nil {
					b.Fatal(err)
				}
				times = append(times, ns/1000)
			}
			b.StopTimer()
			if len(times) != b.N {
				b.Fatalf("%d times of %d calls", len(times), b.N)
			}
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "p50-µs")
			b.ReportMetric(times[len(times)*99/100], "p99-µs")
		})
	}
}
