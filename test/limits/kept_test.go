package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
)

// kept is a kept sandbox that is closed before its Runtime.
func (l *lab) kept(t *testing.T, p isolate.Policy) *isolate.Sandbox {
	t.Helper()
	sb, err := l.Sandbox(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := sb.Close(); err != nil {
				t.Errorf("cannot close sandbox: %v", err)
			}
		}
	})
	return sb
}

// in runs a shell script in a kept sandbox.
func in(t testing.TB, sb *isolate.Sandbox, script string) isolate.Result {
	t.Helper()
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatalf("cannot run %q: %v", script, err)
	}
	return res
}

// C34: files live from one run to the next, in all writable places; processes
// do not, and a program that crashes takes no file with it.
func TestLimitsKeptFiles(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	in(t, sb, "for d in /workspace /tmp /dev/shm $HOME; do echo $d >$d/kept; done; sleep 60 &")
	crash := in(t, sb, "kill -SEGV $$")
	ended(t, crash, isolate.ReasonSignal)
	says(t, in(t, sb, "cat /workspace/kept /tmp/kept /dev/shm/kept $HOME/kept; pgrep sleep; true"),
		"/workspace", "/tmp", "/dev/shm", "/home/sandbox")
}

// C34: files go in and come out of a kept sandbox between its runs.
func TestLimitsKeptCopies(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	dir := publicDir(t)
	source, out := filepath.Join(dir, "source"), filepath.Join(dir, "out")
	if err := os.WriteFile(source, []byte("20\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if m, err := sb.CopyIn(ctx, []isolate.Input{{Source: source, Target: "a/n"}}); err != nil || len(m.Files) != 1 {
		t.Fatalf("copied in %d files: %v", len(m.Files), err)
	}
	says(t, in(t, sb, "echo $(($(cat a/n)+22)) >m; cat m"), "42")
	if _, err := sb.CopyOut(ctx, out); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "m")); err != nil || string(b) != "42\n" {
		t.Errorf("copied out %q: %v", b, err)
	}
}

// Several programs run at once in a kept sandbox and see each other's files.
func TestLimitsKeptRunsAtOnce(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	const n = 5
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			script := fmt.Sprintf("echo %d >%d; while [ $(ls | wc -l) -lt %d ]; do sleep 0.05; done; echo met; exit %d", i, i, n, i)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			res, err := sb.Run(ctx, isolate.Cmd{Args: []string{"sh", "-c", script}})
			if err != nil {
				t.Errorf("program %d: %v", i, err)
			} else if res.Reason != isolate.ReasonExit || res.ExitCode != i || string(res.Stdout.Kept) != "met\n" {
				t.Errorf("program %d ended by %s: %s", i, res.Reason, describe(res))
			}
		})
	}
	all.Wait()
}

// A63: in a kept sandbox, too, a run returns when its program ends, although
// another program runs on and something it left holds its output.
func TestLimitsKeptLeaver(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	ctx, cancel := context.WithCancel(context.Background())
	other := make(chan struct{})
	go func() {
		defer close(other)
		_, _ = sb.Run(ctx, isolate.Cmd{Args: []string{"sleep", "50"}})
	}()
	defer func() { cancel(); <-other }()
	within(t, patience, func() error { // the other program is there
		if res := in(t, sb, "cat /proc/[0-9]*/comm"); !contains(res, "sleep\n") {
			return errors.New("the other program has not started")
		}
		return nil
	})
	begin := time.Now()
	says(t, in(t, sb, "setsid sleep 30 & echo done"), "done")
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("returned after %s", took)
	}
}

// C30: a time limit ends its own program, not its neighbours.
func TestLimitsKeptDeadline(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{Wall: 2 * patience})
	stdin, end := io.Pipe()
	started, neighbour := make(chan struct{}), make(chan isolate.Result, 1)
	go func() {
		res, err := sb.Run(context.Background(), isolate.Cmd{
			Args: []string{"sh", "-c", "cat; echo survived"}, Stdin: stdin, Started: func(isolate.Running) { close(started) },
		})
		if err != nil {
			t.Error(err)
		}
		neighbour <- res
	}()
	<-started
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"sh", "-c", "echo begun; sleep 50"}, Wall: 3 * time.Second})
	end.Close()
	if err != nil {
		t.Fatal(err)
	}
	says(t, <-neighbour, "survived")
	ended(t, res, isolate.ReasonWall)
	says(t, res, "begun")
	says(t, in(t, sb, "echo again"), "again")
}

// Kill ends every program of a kept sandbox and leaves it usable, its files in
// place.
func TestLimitsKeptKill(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	const n = 3
	results := make(chan isolate.Result, n)
	started := make(chan struct{}, n)
	for range n {
		go func() {
			res, err := sb.Run(context.Background(), isolate.Cmd{
				Args:   []string{"sh", "-c", "trap '' TERM HUP INT; setsid sleep 50 & echo begun >>log; echo; sleep 50"},
				Stdout: writerFunc(func(p []byte) (int, error) { started <- struct{}{}; return len(p), nil }),
			})
			if err != nil {
				t.Error(err)
			}
			results <- res
		}()
	}
	for range n {
		<-started
	}
	begin := time.Now()
	if err := sb.Kill(); err != nil {
		t.Fatal(err)
	}
	for range n {
		ended(t, <-results, isolate.ReasonCancelled)
	}
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("the programs were there for %s after Kill", took)
	}
	says(t, in(t, sb, "cat log; set -- /proc/[0-9]*; echo $#"), "begun", "begun", "begun", "2")
	if err := sb.Kill(); err != nil {
		t.Errorf("cannot kill nothing: %v", err)
	}
	says(t, in(t, sb, "echo usable"), "usable")
}

// Close ends the programs that run, proves that all is gone, and no run is
// taken afterwards.
func TestLimitsKeptClose(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	started, returned := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := sb.Run(context.Background(), isolate.Cmd{
			Args:   []string{"sh", "-c", "echo; sleep 50"},
			Stdout: writerFunc(func(p []byte) (int, error) { started <- struct{}{}; return len(p), nil }),
		})
		returned <- err
	}()
	<-started
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-returned:
	case <-time.After(patience):
		t.Error("a run has not returned after Close")
	}
	if _, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"true"}}); err == nil {
		t.Error("a closed sandbox ran a program")
	}
}

// C29, C34: memory that runs out in a kept sandbox is named, and the sandbox can
// be used again.
func TestLimitsKeptOOM(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{Memory: someMemory})
	c := hostile(t, "hogs.py", "heap")
	if _, err := sb.CopyIn(context.Background(), c.In); err != nil {
		t.Fatal(err)
	}
	c.In = nil
	res, err := sb.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	ended(t, res, isolate.ReasonOOM)
	says(t, in(t, sb, "sleep 0.3; ls hogs.py; echo again"), "hogs.py", "again")
	// What one run met is not the reason of the next.
	ended(t, in(t, sb, "sleep 0.3; exit 3"), isolate.ReasonExit)
}

// C 29, 34: who starts one program too many is told what to do. A program that
// closes the workspace locks nobody out of the sandbox.
func TestLimitsKeptRefusals(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{PIDs: 2})
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{}, 2)
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			_, _ = sb.Run(ctx, isolate.Cmd{Args: []string{"sleep", "60"}, Started: func(isolate.Running) { started <- struct{}{} }})
		})
	}
	<-started
	<-started
	_, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "make a sandbox with a higher --pids") {
		t.Errorf("one program too many: %v", err)
	}
	cancel()
	busy.Wait()
	in(t, sb, "echo kept >a; chmod 0 /workspace")
	ended(t, in(t, sb, "test $(cat a) = kept && chmod 0 /workspace"), isolate.ReasonExit)
	if list, _, err := sb.ListFiles("", 10); err != nil || len(list) != 1 {
		t.Errorf("a closed workspace: listed %v, %v", list, err)
	}
	in(t, sb, "chmod 0 /workspace")
	if _, err := sb.PutFile(context.Background(), "b/c", 0o644, strings.NewReader("put")); err != nil {
		t.Errorf("a closed workspace: %v", err)
	}
	in(t, sb, "chmod 0 /workspace")
	if f, err := sb.OpenFile("a"); err != nil {
		t.Errorf("a closed workspace: %v", err)
	} else {
		f.Close()
	}
	in(t, sb, "chmod 0 /workspace")
	if m, err := sb.CopyOut(context.Background(), filepath.Join(t.TempDir(), "out")); err != nil || len(m.Files) != 2 {
		t.Errorf("a closed workspace: copied %v, %v", m, err)
	}
}
