package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// A69, runc#5208: programs that end at once, one after the other. None hangs,
// and our own memory and descriptors stay as they are. ISOLATE_SOAK=1 runs
// 10,000 of them.
func TestLimitsManyShortRuns(t *testing.T) {
	l := newLab(t, isolate.Options{})
	runs, settled := 500, 100
	if soak() {
		runs, settled = 10_000, 1000
	}
	// The kernel may make huge pages of what our heap has given back.
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }()
	var memory int64
	var files int
	for i := range runs {
		if i == settled {
			debug.FreeOSMemory()
			memory, files = residentMemory(), len(openFiles(t))
		}
		begin := time.Now()
		res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/true"}})
		if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
			t.Fatalf("run %d ended by %s: %s", i, res.Reason, describe(res))
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Fatalf("run %d took %s", i, took)
		}
	}
	within(t, patience, func() error { // tear-downs may still be going on
		debug.FreeOSMemory()
		if grown := residentMemory() - memory; grown > 4<<20 {
			return fmt.Errorf("our memory grew by %d KiB in %d runs", grown>>10, runs-settled)
		}
		return nil
	})
	// A few idle seats with five descriptors each, and a spare in the making.
	if open := openFiles(t); len(open) > files+80 {
		t.Errorf("%d descriptors are open, %d were before", len(open), files)
	}
}

// C30: no goroutine outlives Close, however the runs before it ended.
func TestLimitsNoGoroutineIsLeft(t *testing.T) {
	l := newLab(t, isolate.Options{})
	l.close() // this one is not looked at
	before := goleak.IgnoreCurrent()
	l = newLab(t, isolate.Options{})
	for _, c := range []isolate.Cmd{
		{Args: []string{"true"}},
		{Args: []string{"no-such-program"}},
		{Args: []string{"sh", "-c", "kill -9 $$"}},
		{Args: []string{"cat"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))},
		{Args: []string{"true"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}, // nobody reads it
		{Args: []string{"head", "-c", "1M", "/dev/zero"}, Stdout: io.Discard},
		{Args: []string{"true"}, Terminal: &isolate.Terminal{Output: io.Discard, Resize: make(chan isolate.WindowSize)}},
		{Args: []string{"true"}, Terminal: &isolate.Terminal{Output: io.Discard, Input: strings.NewReader("x\n")}},
	} {
		l.run(isolate.Policy{}, c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if res, err := l.Run(ctx, isolate.Policy{}, isolate.Cmd{Args: []string{"sleep", "30"}}); err != nil || res.Reason != isolate.ReasonCancelled {
		t.Errorf("ended by %s, %v", res.Reason, err)
	}
	sb, err := l.Sandbox(context.Background(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"true"}}); err != nil {
		t.Error(err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	l.close()
	within(t, patience, func() error { return goleak.Find(before) })
}

// C30: Close while programs run ends them; a kept sandbox that nobody closed
// does not keep Close from proving that all is gone.
func TestLimitsCloseWhileRunning(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb, err := l.Sandbox(context.Background(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	returned := make(chan isolate.Result, 2)
	run := func(f func() (isolate.Result, error)) {
		res, err := f()
		if err != nil {
			t.Error(err)
		}
		returned <- res
	}
	started := make(chan struct{}, 2)
	say := writerFunc(func(p []byte) (int, error) { started <- struct{}{}; return len(p), nil })
	c := isolate.Cmd{Args: []string{"sh", "-c", "echo started; exec sleep 50"}, Stdout: say}
	go run(func() (isolate.Result, error) { return l.Run(context.Background(), isolate.Policy{}, c) })
	go run(func() (isolate.Result, error) { return sb.Run(context.Background(), c) })
	<-started
	<-started
	begin := time.Now()
	l.close()
	if took := time.Since(begin); took > patience {
		t.Errorf("Close took %s", took)
	}
	for range 2 {
		select {
		case res := <-returned:
			ended(t, res, isolate.ReasonCancelled)
		case <-time.After(patience):
			t.Fatal("a run has not returned after Close")
		}
	}
	if err := sb.Close(); err != nil {
		t.Errorf("cannot close a sandbox after its Runtime: %v", err)
	}
	if _, err := sb.Run(context.Background(), c); err == nil {
		t.Error("a sandbox of a closed Runtime ran a program")
	}
}

// C30: a run that waits for its turn is ended by Close, too, and a caller whose
// writer never returns does not keep Close from taking the sandbox down.
func TestLimitsCloseWhileWaiting(t *testing.T) {
	l := newLab(t, isolate.Options{MaxSandboxes: 1, StopWait: time.Second})
	inWriter, leave := make(chan struct{}), make(chan struct{})
	returned := make(chan error, 2)
	go func() {
		_, err := l.Run(context.Background(), isolate.Policy{}, isolate.Cmd{
			Args:   []string{"sh", "-c", "echo; sleep 50"},
			Stdout: writerFunc(func(p []byte) (int, error) { close(inWriter); <-leave; return len(p), nil }),
		})
		returned <- err
	}()
	<-inWriter
	go func() {
		_, err := l.Run(context.Background(), isolate.Policy{}, isolate.Cmd{Args: []string{"true"}})
		returned <- err
	}()
	within(t, patience, func() error {
		if l.Stats().Waiting == 0 {
			return errors.New("the second run does not wait")
		}
		return nil
	})
	err := l.Close()
	if err == nil || !strings.Contains(err.Error(), "has not returned") {
		t.Errorf("Close says %v, want that a run has not returned", err)
	}
	if err := <-returned; err == nil {
		t.Error("the run that waited had its turn after Close")
	}
	close(leave)
	<-returned
	l.close()
}

// A65: stdin is copied to the program; none is the end of file at once.
func TestLimitsStdin(t *testing.T) {
	l := newLab(t, isolate.Options{})
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for _, tt := range []struct {
		name  string
		stdin io.Reader
		args  []string
		out   string
	}{
		{"none", nil, []string{"sh", "-c", "cat; echo ended"}, "ended\n"},
		{"none is /dev/null", nil, []string{"readlink", "/proc/self/fd/0"}, "/dev/null\n"},
		{"empty", strings.NewReader(""), []string{"sh", "-c", "cat; echo ended"}, "ended\n"},
		{"1 MiB", strings.NewReader(large), []string{"cat"}, large},
		{"not read", strings.NewReader(large), []string{"echo", "done"}, "done\n"},
		{"read in part", strings.NewReader(large), []string{"head", "-c", "5"}, large[:5]},
		{"failing reader", io.MultiReader(strings.NewReader("part\n"), failing{}), []string{"sh", "-c", "cat; echo ended"}, "part\nended\n"},
		{"reader that blocks", blocking(t), []string{"echo", "done"}, "done\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := l.run(isolate.Policy{Wall: patience}, isolate.Cmd{Args: tt.args, Stdin: tt.stdin})
			ended(t, res, isolate.ReasonExit)
			if string(res.Stdout.Kept) != tt.out {
				t.Errorf("printed %d bytes %q, want %d", len(res.Stdout.Kept), shortened(res.Stdout.Kept), len(tt.out))
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

// blocking is a reader without data until the test ends.
func blocking(t testing.TB) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

// C35: what the program prints appears as it comes, within 200 ms, and what
// was streamed is what a run without a writer returns.
func TestLimitsStreaming(t *testing.T) {
	l := newLab(t, isolate.Options{})
	c := isolate.Cmd{Args: []string{"sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done"}}
	var text strings.Builder
	oneOf(t, func() error {
		text.Reset()
		var at []time.Time
		c.Stdout = writerFunc(func(p []byte) (int, error) {
			at = append(at, time.Now())
			return text.Write(p)
		})
		var end time.Time
		late := lateness(t, func() {
			ended(t, l.run(isolate.Policy{}, c), isolate.ReasonExit)
			end = time.Now()
		})
		if text.String() != "1\n2\n3\n4\n5\n" {
			t.Fatalf("streamed %q", text.String())
		}
		if len(at) != 5 {
			return fmt.Errorf("streamed in %d pieces", len(at))
		}
		// The end is a known distance behind each line.
		for i, when := range at {
			due := end.Add(-time.Duration(5-i) * 300 * time.Millisecond)
			if d := when.Sub(due); d > 200*time.Millisecond+late {
				return fmt.Errorf("line %d appeared %s late", i+1, d)
			}
		}
		return nil
	})
	c.Stdout = nil
	if again := l.run(isolate.Policy{}, c); string(again.Stdout.Kept) != text.String() {
		t.Errorf("streamed %q, returned %q", text.String(), again.Stdout.Kept)
	}
}

// C47: the same run twice has the same end and the same output, but for what
// it used.
func TestLimitsSameTwice(t *testing.T) {
	l := newLab(t, isolate.Options{})
	c := isolate.Cmd{Args: []string{"sh", "-c", "ls -la /workspace /tmp; env; cat /proc/self/mountinfo | cut -d' ' -f5-; ls /proc; echo err >&2; exit 9"}}
	a, b := l.run(isolate.Policy{}, c), l.run(isolate.Policy{}, c)
	if a.ExitCode != 9 || b.ExitCode != 9 || a.Plan != b.Plan {
		t.Errorf("codes %d and %d, plans %s and %s", a.ExitCode, b.ExitCode, a.Plan, b.Plan)
	}
	strip := func(s isolate.Stream) string { // the times of ls and the devices of tmpfs
		lines := strings.Split(string(s.Kept), "\n")
		for i, line := range lines {
			if f := strings.Fields(line); len(f) == 9 && len(f[0]) == 10 {
				lines[i] = f[0] + " " + f[8]
			}
		}
		return strings.Join(lines, "\n")
	}
	if x, y := strip(a.Stdout), strip(b.Stdout); x != y {
		t.Errorf("printed\n%s\nand then\n%s", x, y)
	}
	if !slices.Equal(a.Stderr.Kept, b.Stderr.Kept) {
		t.Errorf("stderr %q and %q", a.Stderr.Kept, b.Stderr.Kept)
	}
}
