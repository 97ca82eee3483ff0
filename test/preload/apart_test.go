package preload_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// What two programs of one template must not have in common.
func TestForksShareNothing(t *testing.T) {
	r := open(t, isolate.Options{})
	p := preloading(t, "python:random,ssl,tempfile,uuid,json")
	const script = `
import random, ssl, tempfile, uuid, os, json, sys
print(random.random(), ssl.RAND_bytes(8).hex(), tempfile.mktemp(), uuid.uuid4(), os.urandom(8).hex(), sep='\n')
assert not hasattr(json, 'patched') and 'patched' not in sys.modules and not os.environ.get('PATCHED'), 'of another run'
json.patched = json.dumps = sys.modules['patched'] = 1
sys.path.append('/patched'); os.environ['PATCHED'] = '1'; open('/tmp/patched', 'x')
`
	seen := map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 2 { // two at once, each followed by others in its place
		all.Go(func() {
			for range 4 {
				words := strings.Fields(says(t, r, p, script))
				mu.Lock()
				for _, w := range words {
					if seen[w] {
						t.Errorf("two programs had %s", w)
					}
					seen[w] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 2*4*5 {
		t.Errorf("%d different words, want %d", len(seen), 2*4*5)
	}
}

func TestNumPy(t *testing.T) {
	testenv.Require(t, testenv.NumPy)
	r := open(t, isolate.Options{})
	p := preloading(t, "python:numpy,numpy.linalg")
	const script = "import numpy as n, sys; a = n.random.rand(300, 300); n.linalg.inv(a) @ a; print(n.random.rand())"
	if a, b := says(t, r, p, script), says(t, r, p, script); a == b {
		t.Errorf("both programs drew %s", a)
	}
}

// In a kept sandbox several programs run in turn. Signals to the init, which has
// the interpreter's handlers, trouble neither it nor the next program.
func TestKeptSandbox(t *testing.T) {
	r := open(t, isolate.Options{})
	s, err := r.Sandbox(context.Background(), preloading(t, "python:json"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, script := range []string{
		"import json; json.x = 1; open('here', 'w').write('1')",
		"import os, signal\nfor s in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: os.kill(1, s)",
		"import json, os; assert not hasattr(json, 'x'); assert os.path.exists('here'); assert os.getppid() == 1",
	} {
		res, err := s.Run(context.Background(), isolate.Cmd{Args: []string{"python3", "-c", script}})
		if err != nil || res.ExitCode != 0 || res.Reason != isolate.ReasonExit {
			t.Errorf("%v: %s %d %s", err, res.Reason, res.ExitCode, res.Stderr.Kept)
		}
	}
}

func TestLimitsHold(t *testing.T) {
	r := open(t, isolate.Options{})
	for _, c := range []struct {
		name, script string
		change       func(*isolate.Policy)
		want         isolate.Reason
	}{
		{"time", "while True: pass", func(p *isolate.Policy) { p.Wall = 500 * time.Millisecond }, isolate.ReasonWall},
		{"time, asleep with children", "import os\nfor _ in range(5): os.fork()\nwhile True: os.sched_yield()", func(p *isolate.Policy) { p.Wall = time.Second }, isolate.ReasonWall},
		{"memory", "b = []\nwhile True: b.append(bytearray(1 << 20))", func(p *isolate.Policy) { p.Memory = 32 << 20 }, isolate.ReasonOOM},
		{"processes", "import os\nwhile True: os.fork()", func(p *isolate.Policy) { p.PIDs = 20 }, isolate.ReasonPIDs},
		{"output", "while True: print('x' * 9999)", func(p *isolate.Policy) { p.Output, p.EndOnOutput = 1<<16, 1 }, isolate.ReasonOutput},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := preloading(t, "python")
			c.change(&p)
			res := python(t, r, p, "-c", c.script)
			if res.Reason != c.want {
				t.Errorf("ended with %s %d (%s), want %s\n%.300s", res.Reason, res.ExitCode, res.Detail, c.want, res.Stderr.Kept)
			}
			if got := says(t, r, preloading(t, "python"), "print(6 * 7)"); got != "42" {
				t.Errorf("the next program said %q", got)
			}
		})
	}
}

// A terminal is given to a fork as to any program.
func TestTerminal(t *testing.T) {
	r := open(t, isolate.Options{})
	var out strings.Builder
	res, err := r.Run(context.Background(), preloading(t, "python"), isolate.Cmd{
		Args:     []string{"python3", "-c", "import os, sys; print(sys.stdin.isatty(), sys.stdout.line_buffering, os.ttyname(0), os.tcgetpgrp(0) == os.getpgrp())"},
		Terminal: &isolate.Terminal{Output: &out},
	})
	if err != nil || res.ExitCode != 0 || !strings.Contains(out.String(), "True True /dev/pts/0 True") {
		t.Errorf("%v: %d %q", err, res.ExitCode, out.String())
	}
}

// The strict profile allows what the fork needs.
func TestStrict(t *testing.T) {
	r := open(t, isolate.Options{})
	p := preloading(t, "python:json")
	p.Profile = 2
	if got := says(t, r, p, "import json; print(json.dumps([1]))"); got != "[1]" {
		t.Errorf("it said %q", got)
	}
}

// A cell that nobody uses ends, with its template; the next run has a new one.
func TestIdleCellEnds(t *testing.T) {
	// Time to look for the template before it ends again.
	r := open(t, isolate.Options{CellIdle: 5 * time.Second, Spares: isolate.NoSpares})
	p := preloading(t, "python")
	says(t, r, p, "pass")
	until(t, "the template has ended", func() bool { return len(templates(t)) == 0 })
	says(t, r, p, "pass")
	if n := len(templates(t)); n == 0 {
		t.Error("no template is there")
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

// templates are the processes of ours that run the template's program and are
// no forks of it.
func templates(t *testing.T) (pids []int) {
	t.Helper()
	for pid, parent := range children(t) {
		line, _ := os.ReadFile(procFile(pid, "cmdline"))
		above, _ := os.ReadFile(procFile(parent, "cmdline"))
		if strings.Contains(string(line), "python3\x00/proc/self/fd/4") && string(line) != string(above) {
			pids = append(pids, pid)
		}
	}
	return pids
}
