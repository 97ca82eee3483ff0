package net

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
)

// way is how a measuring program reaches the world.
type way struct {
	name string
	// run runs the test binary with an order and returns what it prints.
	run func(t testing.TB, order string) string
}

// ways are ours, the kernel's own, and those of others where they are
// installed. The world's address is the same for all.
func ways(t testing.TB) []way {
	r := open(t)
	self := ownProgram(t)
	p := allow(t, "allow:tcp://bulk.example:7")
	p.Profile, p.Memory = 0, 1<<30
	sb, err := r.Sandbox(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	if _, err := sb.CopyIn(context.Background(), []isolate.Input{{Source: self, Target: "net.test"}}); err != nil {
		t.Fatal(err)
	}
	all := []way{
		{"direct", func(t testing.TB, order string) string { return command(t, order, self) }},
		{"isolate", func(t testing.TB, order string) string {
			order = strings.ReplaceAll(order, "9.9.9.1", "bulk.example")
			res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"/workspace/net.test"}, Env: map[string]string{"ISOLATE_NETCLIENT": order}})
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%v %s %s", err, out(res), res.Stderr.Kept)
			}
			return out(res)
		}},
	}
	if path, err := exec.LookPath("pasta"); err == nil {
		all = append(all, way{"pasta", func(t testing.TB, order string) string {
			return command(t, order, path, "--config-net", "-m", "65520", "-q", "--", self)
		}})
	}
	if path, err := exec.LookPath("slirp4netns"); err == nil {
		all = append(all, way{"slirp4netns", func(t testing.TB, order string) string { return slirp(t, path, self, order) }})
	}
	return all
}

func command(t testing.TB, order string, args ...string) string {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "ISOLATE_NETCLIENT="+order)
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v %s", args, err, b)
	}
	return string(b)
}

// slirp runs a program in a namespace that slirp4netns serves.
func slirp(t testing.TB, path, self, order string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`unshare -Urn sh -c 'echo $$ >%[1]s/pid; while [ ! -e %[1]s/ready ]; do sleep 0.05; done; exec %[2]s' &
		while [ ! -s %[1]s/pid ]; do sleep 0.05; done
		%[3]s --configure --mtu=65520 --disable-host-loopback -r 3 $(cat %[1]s/pid) tap0 3>%[1]s/up >/dev/null 2>&1 & s=$!
		while [ ! -s %[1]s/up ]; do sleep 0.05; done; touch %[1]s/ready
		wait %%1; kill $s`, dir, self, path)
	return command(t, order, "bash", "-c", script)
}

func numbers(t testing.TB, text string) []float64 {
	t.Helper()
	var out []float64
	for _, f := range strings.Fields(text) {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatalf("no number: %q", text)
		}
		out = append(out, n)
	}
	return out
}

// BenchmarkNet measures all ways in turn: bytes a second each way, a round trip
// of 1 KiB, a new connection with its first byte, to an address or a name that
// was looked up before, and a look-up. What isolate adds to a new connection
// has one look-up of the world's in it, as direct makes it.
func BenchmarkNet(b *testing.B) {
	all := ways(b)
	for _, c := range []struct {
		name, order, unit string
		scale             float64
	}{
		{"down", "down 9.9.9.1:7 2", "MB/s", 1e6}, {"up", "up 9.9.9.1:7 2", "MB/s", 1e6},
		{"trip", "echo 9.9.9.1:7 3000", "us", 1}, {"bare", "bare 9.9.9.1:7 3000", "us", 1}, {"open", "open 9.9.9.1:7 300", "us", 1}, {"lookup", "lookup bulk.example 300", "us", 1},
	} {
		for _, w := range all {
			if c.name == "lookup" && w.name != "direct" && w.name != "isolate" {
				continue // they hand it on
			}
			b.Run(c.name+"/"+w.name, func(b *testing.B) {
				for range b.N {
					n := numbers(b, w.run(b, c.order))
					b.ReportMetric(n[0]/c.scale, c.unit)
					if len(n) > 1 {
						b.ReportMetric(n[1]/c.scale, c.unit+"-p99")
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkStart measures what a network adds to a run in a warm cell, its
// process made ahead: medians of interleaved rounds.
func BenchmarkStart(b *testing.B) {
	r := openWith(b, isolate.Options{})
	kinds := []struct {
		name   string
		policy isolate.Policy
		took   []time.Duration
	}{{name: "none"}, {name: "restricted", policy: allow(b, "allow:allowed.example")}}
	for range b.N {
		for i := range kinds {
			k := &kinds[i]
			time.Sleep(150 * time.Millisecond) // the next one is made ahead
			began := time.Now()
			if _, err := r.Run(context.Background(), k.policy, isolate.Cmd{Args: []string{"/bin/true"}}); err != nil {
				b.Fatal(err)
			}
			k.took = append(k.took, time.Since(began))
		}
	}
	var p50 []time.Duration
	for _, k := range kinds {
		slices.Sort(k.took)
		p50 = append(p50, k.took[len(k.took)/2])
		b.ReportMetric(float64(p50[len(p50)-1].Microseconds()), k.name+"-us")
	}
	b.ReportMetric(float64((p50[1] - p50[0]).Microseconds()), "added-us")
	b.ReportMetric(0, "ns/op")
}
