package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/testenv"
)

const (
	// soakShort is how many runs every test makes, soakLong those of a release.
	soakShort = 1_500
	soakLong  = 100_000
	// soakCallers is how many ask at the same time.
	soakCallers = 4
	// soakParts is how often the server is looked at.
	soakParts = 10
)

// soakRuns is how many runs to make: ISOLATE_SOAK=1 is soakLong, another number
// is that many.
func soakRuns(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("ISOLATE_SOAK")
	if text == "" {
		return soakShort
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("ISOLATE_SOAK is %q: it is 1 or a number of runs", text)
	}
	if n == 1 {
		n = soakLong
	}
	return n
}

// soak is a server under load.
type soak struct {
	t      *testing.T
	dir    string // of the server
	client *client.Client
	env    []string
	server *exec.Cmd
	log    bytes.Buffer
	// rest is how long a program sleeps that is to be ended: nobody else's
	// sleeps as long, so that one which is left is known.
	rest string

	counts sync.Map     // of what was done, by kind: *atomic.Int64
	ran    atomic.Int64 // programs that the server must have counted
}

// startSoak starts a server. The test ends it.
func startSoak(t *testing.T) *soak {
	t.Helper()
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs, testenv.Python3)
	dir, err := os.MkdirTemp("", "isolate-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "serve.sock")
	s := &soak{t: t, dir: dir, rest: fmt.Sprintf("60.%d", os.Getpid()), client: client.New(socket)}
	t.Cleanup(s.client.Close)
	s.env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "ISOLATE_SOCKET="+socket)
	s.serve()
	t.Cleanup(func() { _ = s.server.Process.Kill() })
	return s
}

// serve starts the server, again after it has ended.
func (s *soak) serve() {
	s.t.Helper()
	s.log.Reset()
	s.server = exec.Command("isolate", "serve", "--max-sandboxes", "6")
	s.server.Env, s.server.Stderr = s.env, &s.log
	out, err := s.server.StdoutPipe()
	if err == nil {
		err = s.server.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = s.server.Wait()
		s.t.Fatalf("the server says %q: %v, %s", line, err, s.log.String())
	}
}

// end ends the server as a service manager does.
func (s *soak) end() {
	s.t.Helper()
	if err := s.server.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.server.Wait(); err != nil {
		s.t.Errorf("server: %v\n%s", err, s.log.String())
	}
}

// caller is one of those that ask at the same time.
type caller struct {
	*soak
	dir string // its own
}

// load makes n runs by soakCallers callers.
func (s *soak) load(n int64) {
	var left atomic.Int64
	left.Store(n)
	var wait sync.WaitGroup
	for i := range soakCallers {
		c := &caller{soak: s, dir: filepath.Join(s.t.TempDir(), strconv.Itoa(i))}
		if err := os.MkdirAll(c.dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
		wait.Go(func() {
			for left.Add(-1) >= 0 && !s.t.Failed() {
				k := lots[rand.IntN(len(lots))]
				if err := k.do(c); err != nil {
					s.t.Errorf("%s: %v", k.name, err)
				}
				count, _ := s.counts.LoadOrStore(k.name, new(atomic.Int64))
				count.(*atomic.Int64).Add(1)
			}
		})
	}
	wait.Wait()
}

// lots has each kind as often as it is to be drawn.
var lots = func() (list []kind) {
	for _, k := range kinds {
		list = append(list, slices.Repeat([]kind{k}, k.often)...)
	}
	return list
}()

// TestSoak: however many runs, and whatever happens to them and to who asked
// for them, each has its result, the right one, and nothing of it is left.
func TestSoak(t *testing.T) {
	n := soakRuns(t)
	groups := cgroupsBelow(t)
	s := startSoak(t)
	began := time.Now()
	s.load(min(n/5, 1000)) // pools, caches and remembered runs fill
	before := s.settle()
	t.Logf("%7d runs: %v", s.ran.Load(), before)
	for range soakParts {
		s.load(n / soakParts)
		after := s.settle()
		t.Logf("%7d runs: %v", s.ran.Load(), after)
		if grown := after.beyond(before); grown != "" {
			t.Error(grown)
		}
		if t.Failed() {
			break
		}
	}
	s.counts.Range(func(name, count any) bool {
		t.Logf("%7d %s", count.(*atomic.Int64).Load(), name)
		return true
	})
	t.Logf("%.0f a second", float64(s.ran.Load())/time.Since(began).Seconds())
	s.end()
	s.nothingLeft(groups)
}

// TestServerKilled: at whatever moment the server is killed, its callers are
// told or have an answer, every sandbox dies, and the next server removes what
// is left.
func TestServerKilled(t *testing.T) {
	const moments = 24
	groups := cgroupsBelow(t)
	s := startSoak(t)
	said := map[string]int{}
	for range moments {
		s.killOnce(said)
		if t.Failed() {
			break
		}
	}
	t.Logf("what callers said: %v", said)
	if said["told"] == 0 {
		t.Error("no caller was waiting when the server was killed")
	}
	s.end()
	s.nothingLeft(groups)
}

// killOnce kills the server while callers are at different points, and starts
// the next.
func (s *soak) killOnce(said map[string]int) {
	s.t.Helper()
	ends := make(chan string, 3)
	for _, program := range []string{"exec sleep " + s.rest, "while :; do :; done", "echo done"} {
		go func() { ends <- s.beKilled(program) }()
	}
	time.Sleep(time.Duration(rand.Int64N(int64(120 * time.Millisecond))))
	if err := s.server.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.server.Wait()
	for range 3 {
		select {
		case what := <-ends:
			said[what]++
		case <-time.After(time.Minute):
			s.t.Fatal("a caller still waits a minute later")
		}
	}
	s.within("every program to die", func() bool { return s.resting() == 0 })
	s.serve()
	if dirs, _ := filepath.Glob(filepath.Join(s.dir, "isolate", "isolate-*")); len(dirs) > 1 {
		s.t.Errorf("the next server left %v", dirs)
	}
}

// beKilled runs a program until the server is killed, and says how that went. A
// program with a time limit: where the server was not reached any more, the
// command runs it itself.
func (s *soak) beKilled(program string) string {
	c := exec.Command("isolate", "exec", "--allow", "weak-limits", "--time", "5s", "--", "sh", "-c", program)
	c.Env = s.env
	var out, words bytes.Buffer
	c.Stdout, c.Stderr = &out, &words
	err := c.Run()
	told := bytes.Contains(words.Bytes(), []byte("the server has ended before it"))
	switch code := c.ProcessState.ExitCode(); {
	case code == client.ExitRefused && told:
		return "told"
	case err == nil && out.String() == "done\n":
		return "answered"
	case code == 124 && !told:
		return "ran by themselves"
	default:
		s.t.Errorf("%s: exit code %d, output %q, words %q", program, code, out.String(), words.String())
		return "neither"
	}
}
