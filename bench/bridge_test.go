package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/mcp"
)

// caller is a running program that calls a tool as often as it is told.
type caller struct {
	name  string
	calls int // in one round
	in    io.WriteCloser
	out   *bufio.Scanner
	took  []time.Duration
	stop  func() // ends the service of its own; nil if it has none
}

// BenchmarkBridge measures the round trip of a tool that does nothing, from
// inside a sandbox with all layers on: through files from the Python and the
// JavaScript module, through the Unix socket, and beside them a program on the
// bare host that polls as other systems do. One iteration is one round of all,
// so that a machine whose speed drifts slows all alike. Use -benchtime 40x or
// more. Last it prints what a waiting bridge costs.
func BenchmarkBridge(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := isolate.Open(ctx, isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	}()
	tools := &isolate.Tools{Options: bridge.Options{MaxCalls: bridge.NoLimit, TotalRequestBytes: 1 << 40, TotalResponseBytes: 1 << 40}, Socket: mcp.Serve}
	type numbers struct {
		N int `json:"n"`
	}
	err = isolate.AddTool(tools, isolate.Tool{Name: "noop"}, func(_ context.Context, in numbers) (numbers, error) { return in, nil })
	if err != nil {
		b.Fatal(err)
	}
	all := []*caller{
		inside(b, ctx, r, tools, "python, files", "/usr/bin/python3", "calls.py"),
		inside(b, ctx, r, tools, "node, files", "node", "calls.mjs"),
		inside(b, ctx, r, tools, "python, socket", "/usr/bin/python3", "unixcalls.py"),
		polling(b, ctx),
	}
	for _, c := range all {
		c.round(b)
		c.took = nil // the first round imports and fills caches
	}
	for b.Loop() {
		for _, c := range all {
			c.round(b)
		}
	}
	fmt.Printf("\n%-18s %8s %10s %10s\n", "round trip", "calls", "p50", "p99")
	for _, c := range all {
		slices.Sort(c.took)
		p50, p99 := c.took[len(c.took)/2], c.took[len(c.took)*99/100]
		fmt.Printf("%-18s %8d %10s %10s\n", c.name, len(c.took), p50.Round(time.Microsecond), p99.Round(time.Microsecond))
		b.ReportMetric(float64(p50.Microseconds()), strings.NewReplacer(", ", "-", " ", "-").Replace(c.name)+"-p50-µs")
	}
	idle(b, all)
	for _, c := range all {
		c.in.Close()
	}
}

// inside starts a program in a sandbox of its own: in one, each would be woken
// by the answers of all.
func inside(b *testing.B, ctx context.Context, r *isolate.Runtime, tools *isolate.Tools, name, interpreter, file string) *caller {
	box, err := r.SandboxWithTools(ctx, isolate.Policy{Wall: time.Hour}, tools)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { box.Close() })
	if _, err := box.CopyIn(ctx, []isolate.Input{{Source: "testdata"}}); err != nil {
		b.Fatal(err)
	}
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	go func() {
		res, err := box.Run(ctx, isolate.Cmd{Args: []string{interpreter, "/workspace/" + file}, Stdin: in, Stdout: out, Stderr: os.Stderr})
		if err != nil || res.ExitCode != 0 {
			fmt.Fprintf(os.Stderr, "%s: %s %d %v\n", name, res.Reason, res.ExitCode, err)
		}
		out.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return newCaller(name, 50, stdin, stdout)
}

// polling starts a program outside and serves it by polling.
func polling(b *testing.B, ctx context.Context) *caller {
	dir := b.TempDir()
	serving, stop := context.WithCancel(ctx)
	go func() {
		served := map[string]bool{}
		for serving.Err() == nil {
			time.Sleep(30 * time.Millisecond)
			names, _ := filepath.Glob(dir + "/req_*.json")
			for _, name := range names {
				if served[name] {
					continue
				}
				served[name] = true
				id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "req_"), ".json")
				if _, err := os.ReadFile(name); err != nil {
					continue
				}
				_ = os.WriteFile(dir+"/resp_"+id+".json", []byte(`{"result":{"n":1}}`), 0o644)
				_ = os.WriteFile(dir+"/resp_"+id+".done", nil, 0o644)
			}
		}
	}()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "testdata/poll.py", dir)
	cmd.Stderr = os.Stderr
	in, out := piped(b, cmd)
	b.Cleanup(func() { _ = cmd.Wait() })
	c := newCaller("polling, no sandbox", 1, in, out)
	c.stop = stop
	return c
}

// piped starts a program with its input and output in our hands.
func piped(b *testing.B, cmd *exec.Cmd) (io.WriteCloser, io.Reader) {
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return in, out
}

func newCaller(name string, calls int, in io.WriteCloser, out io.Reader) *caller {
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	return &caller{name: name, calls: calls, in: in, out: s}
}

// round lets the program make its calls.
func (c *caller) round(b *testing.B) {
	b.Helper()
	fmt.Fprintln(c.in, c.calls)
	if !c.out.Scan() {
		b.Fatalf("%s: no answer: %v", c.name, c.out.Err())
	}
	var took []time.Duration
	if err := json.Unmarshal(c.out.Bytes(), &took); err != nil || len(took) != c.calls {
		b.Fatalf("%s: answered %q: %v", c.name, c.out.Text(), err)
	}
	c.took = append(c.took, took...)
}

// idle prints the processor time that this process uses in two seconds in which
// the programs do not call. The poller is ended first: it never rests.
func idle(b *testing.B, all []*caller) {
	for _, c := range all {
		if c.stop != nil {
			c.stop()
		}
	}
	const long = 2 * time.Second
	time.Sleep(long) // what still settles after the last calls
	before := cpuTime(b)
	time.Sleep(long)
	used := cpuTime(b) - before
	fmt.Printf("%-18s %s of a processor in %s\n", "waiting bridge", used.Round(time.Microsecond), long)
	b.ReportMetric(float64(used.Microseconds()), "idle-µs")
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
