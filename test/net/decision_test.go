package net

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/egress"
)

// BenchmarkDecision measures what a decision about a new connection takes, apart
// from the upstream's part: to an address there is no look-up, so that what
// isolate adds to direct is waking, decision, record and a round trip through
// the stack. With a log the record is on a disk (ISOLATE_BENCH_DIR, or the
// directory of temporary files) before the first byte goes out; without, the
// supervisor answers at once. The difference of name and address is the look-up.
func BenchmarkDecision(b *testing.B) {
	self := ownProgram(b)
	targets := []struct{ kind, to string }{{"address", "9.9.9.1:7"}, {"name", "bulk.example:7"}}
	ways := []struct {
		name string
		run  func() string
	}{{"direct", func() string { return command(b, "open "+targets[0].to+" 300", self) }}}
	for _, l := range []struct {
		name string
		log  *audit.Log
	}{{"unlogged", nil}, {"logged", diskLog(b)}} {
		sb := decisionSandbox(b, self, l.log)
		for _, x := range targets {
			ways = append(ways, struct {
				name string
				run  func() string
			}{l.name + "-" + x.kind, func() string {
				res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"/workspace/net.test"}, Env: map[string]string{"ISOLATE_NETCLIENT": "open " + x.to + " 300"}})
				if err != nil || res.ExitCode != 0 {
					b.Fatalf("%v %s %s", err, out(res), res.Stderr.Kept)
				}
				return out(res)
			}})
		}
	}
	sums := make([]float64, len(ways))
	for range b.N {
		for i, w := range ways {
			sums[i] += numbers(b, w.run())[0]
		}
	}
	for i, w := range ways {
		b.ReportMetric(sums[i]/float64(b.N), w.name+"-us")
	}
	b.ReportMetric(0, "ns/op")
}

// diskLog is a log on the disk that is meant.
func diskLog(b *testing.B) *audit.Log {
	dir, err := os.MkdirTemp(os.Getenv("ISOLATE_BENCH_DIR"), "isolate-decision-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	key, err := audit.LoadKey(filepath.Join(dir, "key"))
	if err != nil {
		b.Fatal(err)
	}
	log, err := audit.Open(filepath.Join(dir, "log"), audit.Options{Key: key})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	return log
}

// decisionSandbox may reach the world's server by its name and by its address.
func decisionSandbox(b *testing.B, self string, log *audit.Log) *isolate.Sandbox {
	r := openWith(b, isolate.Options{Spares: isolate.NoSpares, Audit: log})
	p := allow(b, "allow:tcp://bulk.example:7")
	p.Net.Rules = append(p.Net.Rules, egress.Rule{CIDR: "9.9.9.1/32", Protocol: egress.TCP, Ports: []int{7}})
	p.Memory = 1 << 30
	sb, err := r.Sandbox(context.Background(), p)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { sb.Close() })
	if _, err := sb.CopyIn(context.Background(), []isolate.Input{{Source: self, Target: "net.test"}}); err != nil {
		b.Fatal(err)
	}
	return sb
}
