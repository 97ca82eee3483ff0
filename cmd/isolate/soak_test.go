package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate/internal/testenv"
)

// soakRuns is how many runs ISOLATE_SOAK asks for: 1 is the 100,000 of a
// release, another number is that many, empty none.
func soakRuns(t *testing.T) int64 {
	text := os.Getenv("ISOLATE_SOAK")
	if text == "" {
		t.Skip("ISOLATE_SOAK is not set: 1 makes 100,000 runs, which takes half an hour, another number that many")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if n == 1 {
		n = 100_000
	}
	return n
}

// soak is a server under load.
type soak struct {
	t      *testing.T
	dir    string
	env    []string
	server *exec.Cmd
	log    bytes.Buffer
	counts sync.Map // of runs, by scenario: *atomic.Int64
}

func startSoak(t *testing.T) *soak {
	t.Helper()
	run, err := os.MkdirTemp("", "isolate-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	s := &soak{t: t, dir: run}
	s.env = append(os.Environ(), "XDG_RUNTIME_DIR="+run, "ISOLATE_SOCKET="+filepath.Join(run, "serve.sock"))
	s.server = exec.Command("isolate", "serve", "--max-sandboxes", "6")
	s.server.Env, s.server.Stderr = s.env, &s.log
	out, err := s.server.StdoutPipe()
	if err == nil {
		err = s.server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server says %q: %v, %s", line, err, s.log.String())
	}
	return s
}

// scenario is one kind of run: what to call, what to do to it, and what must
// come of it.
type scenario struct {
	name  string
	flags []string
	args  []string
	// harm is done when the program has said "up"; nil is nothing.
	harm   func(*exec.Cmd, *bufio.Reader)
	code   int // -1 if the caller itself was killed
	reason string
	stdout int // bytes; -1 if that is not known
}

func signalled(sig syscall.Signal) func(*exec.Cmd, *bufio.Reader) {
	return func(c *exec.Cmd, _ *bufio.Reader) { _ = c.Process.Signal(sig) }
}

var scenarios = []scenario{
	{"success", nil, []string{"true"}, nil, 0, "exit", 0},
	{"failure", nil, []string{"sh", "-c", "exit 42"}, nil, 42, "exit", 0},
	{"output", []string{"--output", "2M"}, []string{"head", "-c", "1000000", "/dev/zero"}, nil, 0, "exit", 1000000},
	{"not found", nil, []string{"no-such-program"}, nil, 127, "exit", 0},
	{"signal", nil, []string{"sh", "-c", "kill -SEGV $$"}, nil, 139, "signal", 0},
	{"timeout", []string{"--time", "700ms"}, []string{"sleep", "60"}, nil, 124, "wall", 0},
	{"memory", []string{"--memory", "8M"}, []string{"sh", "-c", "x=$(head -c 100000000 /dev/zero | tr '\\0' x)"}, nil, -2, "oom", 0},
	{"forks", []string{"--pids", "10"}, []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do sleep 60 & done; wait"}, nil, -2, "pids", -1},
	{"interrupted", nil, []string{"sh", "-c", "echo up; sleep 60"}, signalled(syscall.SIGINT), 130, "cancelled", -1},
	{"terminated", nil, []string{"sh", "-c", "echo up; sleep 60"}, signalled(syscall.SIGTERM), 143, "cancelled", -1},
	{"caller killed", nil, []string{"sh", "-c", "echo up; (sleep 60 &) ; sleep 60"}, signalled(syscall.SIGKILL), -1, "", -1},
	{"caller gone while it reads", []string{"--stdin"}, []string{"sh", "-c", "echo up; cat"}, signalled(syscall.SIGKILL), -1, "", -1},
}

// once makes one run and says what is wrong with what came of it.
func (s *soak) once(sc scenario, worker int) error {
	meta := filepath.Join(s.dir, fmt.Sprintf("meta-%d", worker))
	args := append([]string{"exec", "--allow", "weak-limits", "--meta", meta}, sc.flags...)
	c := exec.Command("isolate", append(append(args, "--"), sc.args...)...)
	c.Env = s.env
	if len(sc.flags) > 0 && sc.flags[0] == "--stdin" {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		defer w.Close()
		c.Stdin = r
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		return err
	}
	read := bufio.NewReader(out)
	if sc.harm != nil {
		if line, err := read.ReadString('\n'); line != "up\n" {
			_ = c.Process.Kill()
			return fmt.Errorf("says %q, %v; %s", line, err, stderr.String())
		}
		sc.harm(c, read)
	}
	n, err := read.WriteTo(discard{})
	if err != nil {
		return err
	}
	if sc.stdout >= 0 && n != int64(sc.stdout) {
		return fmt.Errorf("%d bytes of output, want %d", n, sc.stdout)
	}
	return s.judge(sc, c.Wait(), meta, stderr.String())
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (s *soak) judge(sc scenario, ended error, meta, stderr string) error {
	code := 0
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		code = exit.ExitCode()
	} else if ended != nil {
		return ended
	}
	if sc.code == -2 && code == 0 || sc.code >= -1 && code != sc.code {
		return fmt.Errorf("exit code %d, want %d; %s", code, sc.code, stderr)
	}
	if sc.reason == "" {
		return nil
	}
	text, err := os.ReadFile(meta)
	if err != nil {
		return err
	}
	var m struct{ Via, Reason string }
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Via != "server" || m.Reason != sc.reason {
		return fmt.Errorf("%+v, want reason %s through the server", m, sc.reason)
	}
	return nil
}

// footprint is what the server holds.
type footprint struct{ fds, threads, rss int }

func (s *soak) footprint() footprint {
	s.t.Helper()
	pid := strconv.Itoa(s.server.Process.Pid)
	fds, err := os.ReadDir("/proc/" + pid + "/fd")
	if err != nil {
		s.t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		s.t.Fatal(err)
	}
	f := footprint{fds: len(fds)}
	for line := range strings.Lines(string(status)) {
		p := strings.Fields(line)
		switch p[0] {
		case "Threads:":
			f.threads, _ = strconv.Atoi(p[1])
		case "VmRSS:":
			f.rss, _ = strconv.Atoi(p[1])
		}
	}
	return f
}

// settle waits until nothing runs and says what the server holds then.
func (s *soak) settle() footprint {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c := exec.Command("isolate", "pool", "status", "--json")
		c.Env = s.env
		text, err := c.Output()
		if err != nil {
			s.t.Fatal(err)
		}
		var st struct {
			Running int
			Pool    struct {
				Sandboxes        int
				Tear_down_errors int
			}
		}
		if err := json.Unmarshal(text, &st); err != nil {
			s.t.Fatal(err)
		}
		if st.Pool.Tear_down_errors != 0 {
			s.t.Errorf("%d tear-downs went wrong", st.Pool.Tear_down_errors)
		}
		if st.Running == 0 && st.Pool.Sandboxes == 0 {
			time.Sleep(300 * time.Millisecond) // what is made ahead
			return s.footprint()
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("still %d runs and %d sandboxes a minute later", st.Running, st.Pool.Sandboxes)
		}
	}
}

// load makes n runs by four callers.
func (s *soak) load(n int64) {
	var left atomic.Int64
	left.Store(n)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for left.Add(-1) >= 0 && !s.t.Failed() {
				sc := scenarios[rand.IntN(len(scenarios))]
				if err := s.once(sc, worker); err != nil {
					s.t.Errorf("%s: %v", sc.name, err)
				}
				count, _ := s.counts.LoadOrStore(sc.name, new(atomic.Int64))
				count.(*atomic.Int64).Add(1)
			}
		})
	}
	wait.Wait()
}

// TestSoak: however many runs, and whatever happens to them and to who asked
// for them, each has its result and nothing of it is left.
func TestSoak(t *testing.T) {
	n := soakRuns(t)
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	s := startSoak(t)
	s.load(min(n/10, 1000)) // pools, caches and remembered runs fill
	before := s.settle()
	s.load(n)
	after := s.settle()
	t.Logf("before %+v, after %+v", before, after)
	s.counts.Range(func(name, count any) bool {
		t.Logf("%6d %s", count.(*atomic.Int64).Load(), name)
		return true
	})
	// the seats of a burst are kept, some descriptors each
	if after.fds > before.fds+60 || after.threads > before.threads+20 || after.rss > before.rss+before.rss/2+20<<10 {
		t.Error("the server grows")
	}
	if err := s.server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Wait(); err != nil {
		t.Errorf("server: %v\n%s", err, s.log.String())
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*/*")); len(left) > 0 {
		t.Errorf("the server left %v", left)
	}
}
