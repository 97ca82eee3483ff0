package hostile

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// A6, A10: what isolation must leave working, in eight sandboxes at once that
// all use the same port.
func TestLoopbackWorks(t *testing.T) {
	outside.unreached(t)
	l := newLabWith(t, isolate.Options{}, testenv.Python3, testenv.IPv6Loopback)
	want := "127.0.0.1 hello\n127.0.0.1 UDP hello\n::1 hello\n::1 UDP hello\nsocketpair pair\ncall_soon_threadsafe called\nsubprocess child\n"
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			res, err := l.Run(t.Context(), isolate.Policy{}, isolate.Cmd{
				// the port at which the host listens: it is free inside
				Args: []string{"/usr/bin/python3", "/workspace/works.py", strconv.Itoa(outside.port)},
				In:   []isolate.Input{{Source: "testdata/works.py"}},
			})
			if err != nil || string(res.Stdout.Kept) != want || res.Blocked.Total != 0 {
				t.Errorf("%v: printed %q, %s, recorded %+v", err, res.Stdout.Kept, res.Stderr.Kept, res.Blocked)
			}
		})
	}
	all.Wait()
}

// B72: a hundred runs at once: each has its own answer and its own files.
func TestHundredAtOnce(t *testing.T) {
	l := newLabWith(t, isolate.Options{MaxSandboxes: 16})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			own := fmt.Sprint("run", i)
			res, err := l.Run(t.Context(), isolate.Policy{}, isolate.Cmd{
				Args: []string{"/bin/sh", "-c", "echo $OWN >/workspace/$OWN; echo $OWN >/tmp/x; sleep 0.1; cat /workspace/* /tmp/*; cat"},
				Env:  map[string]string{"OWN": own}, Stdin: strings.NewReader(own),
			})
			if want := own + "\n" + own + "\n" + own; err != nil || string(res.Stdout.Kept) != want {
				t.Errorf("%s: %v, printed %q", own, err, res.Stdout.Kept)
			}
		})
	}
	all.Wait()
}

// B88: with a grace period the program sees SIGTERM and can still write; who
// ignores it is killed when the period is over.
func TestGrace(t *testing.T) {
	l := newLab(t)
	const wall, grace = 3 * time.Second, 4 * time.Second
	p := isolate.Policy{Wall: wall, Grace: grace}
	line := `trap 'echo last words; exit 3' TERM; while :; do sleep 0.05; done`
	res := l.run(t, p, isolate.Cmd{Args: []string{"/bin/sh", "-c", line}})
	if res.Reason != isolate.ReasonWall || string(res.Stdout.Kept) != "last words\n" || res.ExitCode != 3 {
		t.Errorf("who listens: %s, code %d, printed %q", res.Reason, res.ExitCode, res.Stdout.Kept)
	}
	line = `trap 'echo no' TERM; while :; do sleep 0.05; done`
	res = l.run(t, p, isolate.Cmd{Args: []string{"/bin/sh", "-c", line}})
	if res.Reason != isolate.ReasonWall || string(res.Stdout.Kept) != "no\n" || res.Signal != 9 {
		t.Errorf("who does not: %s, signal %d, printed %q", res.Reason, res.Signal, res.Stdout.Kept)
	}
	if res.Usage.Wall < wall+grace {
		t.Errorf("killed after %s, want at least %s", res.Usage.Wall, wall+grace)
	}
}

// supervise is a supervisor in a process of its own: it runs a program that
// makes refused calls without end, and says when it has begun.
func supervise() int {
	rt, err := isolate.Open(context.Background(), isolate.Options{Dir: os.Getenv("DIR"), Spares: isolate.NoSpares})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	began := &announce{}
	res, err := rt.Run(context.Background(), isolate.Policy{Wall: 2 * time.Second}, isolate.Cmd{
		Args: []string{"/workspace/flood"}, In: []isolate.Input{{Source: os.Getenv("FLOOD"), Target: "flood"}}, Stdout: began, Stderr: began,
	})
	fmt.Println("ended", res.Reason, err, res.Blocked.Total > 0)
	if err := rt.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// announce passes on what the program prints.
type announce struct{}

func (announce) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

func init() { stages["supervise"] = supervise }

// startSupervisor starts one and returns when its program runs.
func startSupervisor(t *testing.T, dir, program string) (c *superProcess) {
	t.Helper()
	cmd := again("supervise", 0)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	cmd.Env = append(cmd.Env, "DIR="+dir, "FLOOD="+program)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c = &superProcess{pid: cmd.Process.Pid, lines: bufio.NewScanner(out), wait: cmd.Wait}
	if !c.lines.Scan() || c.lines.Text() != "begun" {
		t.Fatalf("the supervisor says %q", c.lines.Text())
	}
	return c
}

type superProcess struct {
	pid   int
	lines *bufio.Scanner
	wait  func() error
}

// B11: a supervisor that is killed while calls wait for its answer takes
// everything with it; the next one on the directory finds it clean.
func TestKilledSupervisor(t *testing.T) {
	program := compiled(t, "testdata/pending.c")
	newLab(t)
	dir := filepath.Join(tempDir(t), "run")
	var ids []string
	for range 3 {
		s := startSupervisor(t, dir, program)
		time.Sleep(50 * time.Millisecond)
		if made, err := os.ReadDir(dir); err == nil {
			for _, e := range made {
				ids = append(ids, e.Name())
			}
		}
		if err := unix.Kill(s.pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = s.wait()
		var left []string
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			reapOrphans()
			if left = descendants(); len(left) == 0 {
				break
			}
		}
		if len(left) > 0 {
			t.Fatalf("processes outlived the supervisor: %v", left)
		}
	}
	rt, err := isolate.Open(t.Context(), isolate.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left by dead supervisors: %v, %v", left, err)
	}
	if len(ids) < 3 {
		t.Errorf("the supervisors had the directories %v", ids)
	}
	for _, id := range ids {
		for _, group := range cgroupsNamed(id) {
			t.Errorf("cgroup is left by a dead supervisor: %s", group)
		}
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

// reapOrphans waits for processes that became ours when their parent died.
func reapOrphans() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// B12: while the supervisor does not run at all, calls that wait for it wait;
// when it runs again the wall limit, over since long, ends the run.
func TestStalledSupervisor(t *testing.T) {
	program := compiled(t, "testdata/pending.c")
	newLab(t)
	s := startSupervisor(t, filepath.Join(tempDir(t), "run"), program)
	if err := unix.Kill(s.pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // longer than the wall limit
	began := time.Now()
	if err := unix.Kill(s.pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !s.lines.Scan() || s.lines.Text() != "ended wall <nil> true" {
		t.Errorf("the supervisor says %q", s.lines.Text())
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the end took %s after the stall", took)
	}
	if err := s.wait(); err != nil {
		t.Error(err)
	}
}
