package net

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/egress"
)

// BenchmarkDecision measures what a decision about a new connection takes, apart
// from the upstream's part: to an address, or a name whose address is still
// kept, there is no look-up, so that what isolate adds to direct is waking,
// decision, record and a round trip through the stack. With a log the record is
// on a disk (ISOLATE_BENCH_DIR, or the directory of temporary files) before the
// first byte goes out; without, the supervisor answers at once. The difference
// of asked and name is the look-up. tls is a name of whose flows the first bytes
// are looked at before anything is dialled.
func BenchmarkDecision(b *testing.B) {
	self := ownProgram(b)
	type way struct {
		name string
		run  func() string
	}
	ways := []way{
		{"direct", func() string { return command(b, "open 9.9.9.1:7 300", self) }},
		{"direct-tls", func() string { return command(b, "hello 9.9.9.1:7 300", self) }},
	}
	for _, l := range []struct {
		name string
		log  *audit.Log
	}{{"unlogged", nil}, {"logged", diskLog(b)}} {
		for _, x := range []struct{ kind, order string }{
			{"address", "open 9.9.9.1:7 300"}, {"name", "open bulk.example:7 300"}, {"asked", "open fresh.example:7 300"}, {"tls", "hello hello.example:7 300"},
		} {
			sb := decisionSandbox(b, self, l.log) // each, for there are only so many new connections a second
			ways = append(ways, way{l.name + "-" + x.kind, func() string {
				res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"/workspace/net.test"}, Env: map[string]string{"ISOLATE_NETCLIENT": x.order}})
				if err != nil || res.ExitCode != 0 {
					b.Fatalf("%v %s %s", err, out(res), res.Stderr.Kept)
				}
				return out(res)
			}})
		}
	}
	times := make([][]float64, len(ways))
	for range b.N {
		for i, w := range ways {
			times[i] = append(times[i], numbers(b, w.run())[0])
		}
	}
	for i, w := range ways {
		slices.Sort(times[i])
		b.ReportMetric(times[i][b.N/2], w.name+"-us")
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

// decisionSandbox may reach the world's server by its names and by its address.
func decisionSandbox(b *testing.B, self string, log *audit.Log) *isolate.Sandbox {
	r := openWith(b, isolate.Options{Spares: isolate.NoSpares, Audit: log})
	p := allow(b, "allow:tcp://bulk.example:7,tcp://fresh.example:7,hello.example:7")
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
