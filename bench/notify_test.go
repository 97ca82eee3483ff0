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
	"testing"
	"time"

	"github.com/isolate-run/isolate"
)

// BenchmarkNotify measures what it costs that the supervisor is asked: a
// connect to a Unix socket, a connect that is refused, and getppid and a file
// opened and closed by a program that does not connect; each inside a sandbox
// and, by the same program, on the bare host. One iteration is a round of both.
// Use -benchtime 40x or more.
func BenchmarkNotify(b *testing.B) {
	ctx := context.Background()
	r := open(b, nil)
	prog := filepath.Join(b.TempDir(), "notify")
	if out, err := exec.Command("gcc", "-O1", "-o", prog, "testdata/notify.c").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	sides := []*asker{bareAsker(b, prog), insideAsker(ctx, r, prog)}
	for b.Loop() {
		for _, s := range sides {
			s.round(b)
		}
	}
	fmt.Println()
	for _, s := range sides {
		fmt.Printf("%-10s", s.name)
		for _, kind := range []string{"unix", "refused", "getppid", "open"} {
			took := s.took[kind]
			slices.Sort(took)
			fmt.Printf("  %s p50 %s p99 %s", kind, took[len(took)/2], took[len(took)*99/100])
			if s == sides[1] {
				b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), kind+"-p50-ns")
			}
		}
		fmt.Println()
		s.in.Close()
		for s.out.Scan() {
		}
	}
}

func insideAsker(ctx context.Context, r *isolate.Runtime, prog string) *asker {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	go func() {
		res, err := r.Run(ctx, isolate.Policy{Wall: time.Hour}, isolate.Cmd{
			Args: []string{"/workspace/notify"}, In: []isolate.Input{{Source: prog}}, Stdin: in, Stdout: out, Stderr: os.Stderr,
		})
		if err != nil || res.ExitCode != 0 {
			fmt.Fprintf(os.Stderr, "%s %d %v\n", res.Reason, res.ExitCode, err)
		}
		out.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return &asker{name: "sandbox", in: stdin, out: bufio.NewScanner(stdout)}
}

func bareAsker(b *testing.B, prog string) *asker {
	cmd := exec.Command(prog)
	in, out := piped(b, cmd)
	b.Cleanup(func() {
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return &asker{name: "bare host", in: in, out: bufio.NewScanner(out)}
}

// asker is a running program that makes a round of calls when it is told.
type asker struct {
	name string
	in   io.WriteCloser
	out  *bufio.Scanner
	took map[string][]time.Duration
}

func (s *asker) round(b *testing.B) {
	b.Helper()
	fmt.Fprintln(s.in)
	if !s.out.Scan() {
		b.Fatalf("%s: no answer: %v", s.name, s.out.Err())
	}
	var got map[string][]time.Duration
	if err := json.Unmarshal(s.out.Bytes(), &got); err != nil {
		b.Fatalf("%s: %q: %v", s.name, s.out.Text(), err)
	}
	if s.took == nil {
		s.took = map[string][]time.Duration{}
	}
	for kind, list := range got {
		s.took[kind] = append(s.took[kind], list...)
	}
}
