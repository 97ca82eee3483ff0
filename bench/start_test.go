package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bench/peers"
	"github.com/isolate-run/isolate/policy"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// program is what every contender starts: it ends at once.
const program = "/bin/true"

// contender is one way to start the program and wait for its end.
type contender struct {
	name   string
	layers string // what stands between the program and the host
	run    func() error
}

// BenchmarkStart runs the contenders in turn, one round after the other, so
// that a machine whose speed drifts slows all of them alike, and prints their
// medians, 99th percentiles and ratios to bare fork+exec and to bubblewrap.
// One iteration is one round of all. Use -benchtime 200x or more.
func BenchmarkStart(b *testing.B) {
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{Spares: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	}()
	all := contenders(b, ctx, r)
	interleaved(b, program, all)
}

// interleaved runs the contenders in turn until the benchmark has enough, and
// reports.
func interleaved(b *testing.B, what string, all []contender) {
	for _, c := range all { // cold caches are not what is measured
		for range 3 {
			if err := c.run(); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
		}
	}
	took := make([][]time.Duration, len(all))
	for b.Loop() {
		for i, c := range all {
			begin := time.Now()
			if err := c.run(); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	report(b, what, all, took)
}

func contenders(b *testing.B, ctx context.Context, r *isolate.Runtime) []contender {
	warm := func() error { return runWarm(ctx, r) }
	list := []contender{
		{"fork+exec", "none", func() error { return exec.Command(program).Run() }},
		{"warm", "all: see isolate exec --explain", warm},
		// the one made ahead is used up: this one waits for the next
		{"warm, at once", "the same", warm},
	}
	cli := build(b)
	list = append(list, contender{"cold command", "all: see isolate exec --explain", func() error {
		return exec.Command(cli, "exec", "--no-server", "--", program).Run()
	}})
	serve(b, cli)
	list = append(list, contender{"served command", "all: see isolate exec --explain", func() error {
		return exec.Command(cli, "exec", "--", program).Run()
	}})
	if peer, ok := bubblewrap(b, program); ok {
		list = append(list, peer)
	}
	return list
}

// runWarm runs the program in a sandbox of its own under the default policy.
func runWarm(ctx context.Context, r *isolate.Runtime) error {
	res, err := r.Run(ctx, policy.Policy{}, isolate.Cmd{Args: []string{program}})
	if err == nil && (res.Reason != isolate.ReasonExit || res.ExitCode != 0) {
		err = fmt.Errorf("ended with %s %d: %s", res.Reason, res.ExitCode, res.Detail)
	}
	return err
}

// bubblewrap is the peer, if it is installed: a program with the same namespaces
// and a like view.
func bubblewrap(b *testing.B, program ...string) (contender, bool) {
	peer := peers.Bubblewrap()
	file := peer.Find()
	if file == "" {
		b.Log("bubblewrap is not installed: its ratios are missing")
		return contender{}, false
	}
	view, err := peers.HostView()
	if err != nil {
		b.Fatal(err)
	}
	launch, err := peer.Prepare(peers.Ground{View: view}, file, "", program)
	if err != nil {
		b.Fatal(err)
	}
	return contender{peer.Name, "user, mount, pid, net, ipc, uts, cgroup namespaces, no capabilities; no seccomp, no limits", func() error {
		args := launch(0)
		return exec.Command(args[0], args[1:]...).Run()
	}}, true
}

// build makes the command, or takes the one named by ISOLATE_BIN.
func build(b *testing.B) string {
	if bin := os.Getenv("ISOLATE_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(b.TempDir(), "isolate")
	cmd := exec.Command("go", "build", "-tags", "seccomp", "-ldflags", "-s -w", "-o", bin, "../cmd/isolate")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("cannot build the command: %v\n%s", err, out)
	}
	return bin
}

// serve starts a server for the time of the benchmark, at a socket of its own.
func serve(b *testing.B, cli string) {
	b.Helper()
	dir, err := os.MkdirTemp("", "isolate-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("ISOLATE_SOCKET", filepath.Join(dir, "s"))
	cmd := exec.Command(cli, "serve")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			b.Errorf("server: %v", err)
		}
		os.RemoveAll(dir)
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatalf("the server says %q: %v", line, err)
	}
}

func report(b *testing.B, what string, all []contender, took [][]time.Duration) {
	median := make([]time.Duration, len(all))
	for i := range all {
		slices.Sort(took[i])
		median[i] = took[i][len(took[i])/2]
	}
	fmt.Printf("\n%-14s %10s %10s %12s %12s  %s\n", what, "p50", "p99", "/fork+exec", "/bubblewrap", "layers")
	for i, c := range all {
		p99 := took[i][len(took[i])*99/100]
		bwrap := "-"
		for j, other := range all {
			if other.name == "bubblewrap" {
				bwrap = fmt.Sprintf("%.2f", float64(median[i])/float64(median[j]))
			}
		}
		ratio := float64(median[i]) / float64(median[0])
		fmt.Printf("%-14s %10s %10s %12.2f %12s  %s\n", c.name, median[i].Round(10*time.Microsecond), p99.Round(10*time.Microsecond), ratio, bwrap, c.layers)
		b.ReportMetric(float64(median[i].Microseconds()), c.unit())
	}
}

// unit names the metric of a contender in benchstat's way.
func (c contender) unit() string {
	name := []rune(c.name)
	for i, r := range name {
		if r == ' ' || r == '+' || r == ',' {
			name[i] = '-'
		}
	}
	return string(name) + "-p50-µs"
}
