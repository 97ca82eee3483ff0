package limits_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// screen collects what a program writes to its terminal, and lets one wait for
// a text.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newScreen() *screen { return &screen{more: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// await waits for a text to appear.
func (s *screen) await(t testing.TB, text string) {
	t.Helper()
	late := time.After(patience)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("%q has not appeared in %q", text, s)
		}
	}
}

// A53, sunwalker tty: with Terminal the program has a private pseudo-terminal:
// its three streams, its controlling terminal, the only one there is; of the
// size that was asked for and with the sizes that come later.
func TestLimitsTerminal(t *testing.T) {
	l := newLab(t, isolate.Options{})
	s := newScreen()
	keyboard, typing := io.Pipe()
	defer typing.Close()
	resize := make(chan isolate.WindowSize)
	c := hostile(t, "terminal.py")
	c.Terminal = &isolate.Terminal{Input: keyboard, Output: s, Size: isolate.WindowSize{Rows: 30, Cols: 100}, Resize: resize}
	done := make(chan isolate.Result, 1)
	go func() {
		res, err := l.tryRun(isolate.Policy{Wall: patience}, c)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	s.await(t, "size 30 100")
	select {
	case resize <- isolate.WindowSize{Rows: 50, Cols: 132}:
	case <-time.After(patience):
		t.Error("nobody takes a new size")
	}
	s.await(t, "resized 50 132")
	if _, err := io.WriteString(typing, "a line\n"); err != nil {
		t.Error(err)
	}
	res := <-done
	ended(t, res, isolate.ReasonExit)
	want := strings.Join([]string{
		"isatty [True, True, True]", "tty opens", "name /dev/pts/0 True", "others ['0', 'ptmx']",
		"session True True", "size 30 100", "resized 50 132", "a line", "typed a line", "",
	}, "\n")
	if s.String() != want {
		t.Errorf("the screen shows\n%s\nwant\n%s", s, want)
	}
	if raw := int64(s.text.Len()); res.Stdout.Total != raw || res.Stderr.Total != 0 {
		t.Errorf("%d bytes of stdout, %d of stderr, want %d and 0", res.Stdout.Total, res.Stderr.Total, raw)
	}
}

// A53: the first size is 24 rows of 80 columns where none was given.
func TestLimitsTerminalDefaultSize(t *testing.T) {
	l := newLab(t, isolate.Options{})
	s := newScreen()
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"stty", "size"}, Terminal: &isolate.Terminal{Output: s}})
	ended(t, res, isolate.ReasonExit)
	if s.String() != "24 80\n" {
		t.Errorf("stty says %q", s)
	}
}

// A53: control-C typed by the user interrupts what runs in the foreground.
func TestLimitsTerminalInterrupt(t *testing.T) {
	l := newLab(t, isolate.Options{})
	s := newScreen()
	keyboard, typing := io.Pipe()
	defer typing.Close()
	go func() {
		s.await(t, "ready")
		_, _ = io.WriteString(typing, "\x03")
	}()
	res := l.run(isolate.Policy{Wall: patience}, isolate.Cmd{
		Args:     []string{"sh", "-c", "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.1; done"},
		Terminal: &isolate.Terminal{Input: keyboard, Output: s},
	})
	if res.Reason != isolate.ReasonExit || res.ExitCode != 3 || !strings.Contains(s.String(), "interrupted") {
		t.Errorf("ended by %s with %q: %s", res.Reason, s, describe(res))
	}
}

// A53: when the program ends, what it left in the foreground is sent SIGHUP. A
// second program of a kept sandbox sees what became of it.
func TestLimitsTerminalHangup(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	c := hostile(t, "hangup.py")
	if _, err := sb.CopyIn(context.Background(), c.In); err != nil {
		t.Fatal(err)
	}
	c.In, c.Terminal = nil, &isolate.Terminal{Output: newScreen()}
	started, seen := make(chan struct{}), make(chan isolate.Result, 1)
	go func() {
		res, err := sb.Run(context.Background(), isolate.Cmd{
			Args:    []string{"sh", "-c", "for i in $(seq 600); do sleep 0.1; cat hangup 2>/dev/null && break; done"},
			Started: func(isolate.Running) { close(started) },
		})
		if err != nil {
			t.Error(err)
		}
		seen <- res
	}()
	<-started
	res, err := sb.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	ended(t, res, isolate.ReasonExit)
	says(t, <-seen, "hangup")
}

// A53: a run with a terminal that nobody ends is ended as any other, and a
// flood on the terminal is counted.
func TestLimitsTerminalDeadline(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, args := range [][]string{{"sleep", "50"}, {"yes"}, {"sh", "-c", "setsid sleep 50 & trap '' HUP TERM; while :; do sleep 1; done"}} {
		begin := time.Now()
		res := l.run(isolate.Policy{Wall: time.Second, Output: 10_000}, isolate.Cmd{Args: args, Terminal: &isolate.Terminal{Output: io.Discard}})
		ended(t, res, isolate.ReasonWall)
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%q took %s", args, took)
		}
	}
}

// A53: without Terminal there is none: /dev/tty cannot be opened, and the
// streams are not one. Profile strict has no terminals at all.
func TestLimitsNoTerminal(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c",
		"for f in 0 1 2; do test -t $f && echo $f is one; done; (exec 3<>/dev/tty) 2>/dev/null || echo none"}})
	says(t, res, "none")
	_, err := l.Run(context.Background(), isolate.Policy{Profile: policy.ProfileStrict},
		isolate.Cmd{Args: []string{"true"}, Terminal: &isolate.Terminal{Output: io.Discard}})
	if err == nil || !strings.Contains(err.Error(), "strict") {
		t.Errorf("profile strict and a terminal: %v", err)
	}
}
