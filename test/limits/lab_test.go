package limits_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// patience bounds what should take a second at most, on a machine that others
// use too.
const patience = 60 * time.Second

// lab is a Runtime under test. When the test ends it proves that the Runtime
// still works and that closing it leaves nothing.
type lab struct {
	*isolate.Runtime
	t      testing.TB
	dir    string   // its run-time directory
	ids    []string // names its cgroups begin with
	fds    int      // open descriptors before it
	closed bool
}

// newLab opens a Runtime in a directory of its own. The test is skipped where
// no cgroup can hold a sandbox.
func newLab(t testing.TB, o isolate.Options) *lab {
	t.Helper()
	testenv.Require(t, testenv.Cgroup)
	return newLabIn(t, o, publicDir(t))
}

func newLabIn(t testing.TB, o isolate.Options, dir string) *lab {
	t.Helper()
	warm(t)
	l := &lab{t: t, dir: filepath.Join(dir, "run"), fds: len(openFiles(t))}
	o.Dir = l.dir
	var err error
	if l.Runtime, err = isolate.Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	l.ids = entries(t, l.dir)
	t.Cleanup(l.finish)
	return l
}

// warmed is done once the descriptors are open that libcontainer and the Go
// runtime open once in a process.
var warmed sync.Once

func warm(t testing.TB) {
	t.Helper()
	warmed.Do(func() {
		r, err := isolate.Open(context.Background(), isolate.Options{Dir: filepath.Join(publicDir(t), "run")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Run(context.Background(), isolate.Policy{}, isolate.Cmd{Args: []string{"true"}})
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

// publicDir is a temporary directory that the user of root's sandboxes can
// pass through.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "isolate-limits-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// finish is what every test ends with.
func (l *lab) finish() {
	l.t.Helper()
	if !l.closed {
		l.works()
	}
	l.close()
}

// works proves that the Runtime runs a program as if nothing had happened.
func (l *lab) works() {
	l.t.Helper()
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c", "echo $((6*7))"}})
	if res.Reason != isolate.ReasonExit || res.ExitCode != 0 || string(res.Stdout.Kept) != "42\n" {
		l.t.Errorf("the run afterwards ended by %s %d (%s) with %q and %q, want exit 0 with 42",
			res.Reason, res.ExitCode, res.Detail, res.Stdout.Kept, res.Stderr.Kept)
	}
}

// close closes the Runtime and proves that nothing of it is left: no process,
// cgroup, directory, mount or descriptor.
func (l *lab) close() {
	l.t.Helper()
	for range 2 { // Close is idempotent
		if err := l.Close(); err != nil {
			l.t.Errorf("cannot close: %v", err)
		}
	}
	if l.closed {
		return
	}
	l.closed = true
	for _, left := range remains(l.dir, l.ids) {
		l.t.Errorf("left after Close: %s", left)
	}
	within(l.t, patience, func() error {
		if open := openFiles(l.t); len(open) > l.fds {
			return fmt.Errorf("%d descriptors are open after Close, %d were before Open: %q", len(open), l.fds, open)
		}
		return nil
	})
}

// run runs a program that the sandbox must be able to run, well or badly.
func (l *lab) run(p isolate.Policy, c isolate.Cmd) isolate.Result {
	l.t.Helper()
	res, err := l.tryRun(p, c)
	if err != nil {
		l.t.Fatalf("cannot run %q: %v", c.Args, err)
	}
	return res
}

// tryRun is run for goroutines, which may not end the test.
func (l *lab) tryRun(p isolate.Policy, c isolate.Cmd) (isolate.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	res, err := l.Run(ctx, p, c)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("still running after %s", 2*patience)
	}
	return res, err
}

// hostile is the command for a file of testdata: a Python or shell program, or
// a C program, which is compiled on the host. It is copied in.
func hostile(t testing.TB, name string, args ...string) isolate.Cmd {
	t.Helper()
	switch filepath.Ext(name) {
	case ".py":
		testenv.Require(t, testenv.Python3)
		return isolate.Cmd{
			Args: append([]string{"/usr/bin/python3", name}, args...),
			In:   []isolate.Input{{Source: filepath.Join("testdata", name)}},
		}
	case ".sh":
		return isolate.Cmd{
			Args: append([]string{"sh", name}, args...),
			In:   []isolate.Input{{Source: filepath.Join("testdata", name)}},
		}
	case ".c":
		return isolate.Cmd{
			Args: append([]string{"./" + strings.TrimSuffix(name, ".c")}, args...),
			In:   []isolate.Input{{Source: compiled(t, name)}},
		}
	}
	t.Fatalf("nobody knows how to run %q", name)
	return isolate.Cmd{}
}

// built are the C programs compiled so far.
var built struct {
	sync.Mutex
	dir string
}

// compiled compiles a C program once.
func compiled(t testing.TB, name string) string {
	t.Helper()
	testenv.Require(t, testenv.GCC)
	built.Lock()
	defer built.Unlock()
	var err error
	if built.dir == "" {
		if built.dir, err = os.MkdirTemp("", "isolate-limits-built-"); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(built.dir, strings.TrimSuffix(name, ".c"))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	out, err := exec.Command("gcc", "-O1", "-Wall", "-static", "-pthread", "-o", program, filepath.Join("testdata", name)).CombinedOutput()
	if err != nil {
		t.Fatalf("cannot compile %s: %v\n%s", name, err, out)
	}
	return program
}

// oneOf tries up to three times what a moment of others' load can spoil: a bound
// on time, for which the times of one attempt are no proof.
func oneOf(t testing.TB, attempt func() error) {
	t.Helper()
	var err error
	for range 3 {
		if err = attempt(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Errorf("three times, the last time %v", err)
}

// within waits until check is content; else the test fails with what it said
// last.
func within(t testing.TB, d time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(d)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ended fails the test unless the result has the wanted reason.
func ended(t testing.TB, res isolate.Result, want isolate.Reason) {
	t.Helper()
	if res.Reason != want {
		t.Errorf("ended by %s, want %s: %s", res.Reason, want, describe(res))
	}
}

// describe is what one needs to know about a result that was not wanted.
func describe(res isolate.Result) string {
	return fmt.Sprintf("code %d, signal %d, %s; %+v\nstdout: %s\nstderr: %s", res.ExitCode, res.Signal, res.Detail,
		res.Usage, shortened(res.Stdout.Kept), shortened(res.Stderr.Kept))
}

func shortened(b []byte) string {
	const most = 500
	if len(b) <= most {
		return string(b)
	}
	return fmt.Sprintf("%s… (%d bytes)", b[:most], len(b))
}

// contains tells whether a result's output has a text in it.
func contains(res isolate.Result, text string) bool {
	return strings.Contains(string(res.Stdout.Kept), text)
}

// says fails the test unless the program printed exactly these lines.
func says(t testing.TB, res isolate.Result, lines ...string) {
	t.Helper()
	if want := strings.Join(lines, "\n") + "\n"; string(res.Stdout.Kept) != want {
		t.Errorf("printed %q, want %q: %s", shortened(res.Stdout.Kept), want, describe(res))
	}
}

// entries are the names in a directory; one that is not there has none.
func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
