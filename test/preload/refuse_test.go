package preload_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
)

// refused checks that a run is a refusal that says these words.
func refused(t *testing.T, r *isolate.Runtime, p isolate.Policy, c isolate.Cmd, words ...string) {
	t.Helper()
	res, err := r.Run(context.Background(), p, c)
	var refusal *plan.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("ended with %v and %s, want a refusal\n%s", err, res.Reason, res.Stderr.Kept)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	for _, x := range refusal.Problems {
		if x.Remedy == "" {
			t.Errorf("%q has no remedy", x.What)
		}
	}
}

func TestRefusedCommands(t *testing.T) {
	r := open(t, isolate.Options{})
	p := preloading(t, "python")
	for _, c := range []struct {
		cmd  isolate.Cmd
		word string
	}{
		{isolate.Cmd{Args: []string{"/bin/true"}}, `"/bin/true"`},
		{isolate.Cmd{Args: []string{"/usr/bin/python3", "-c", "1"}}, "python3"},
		{isolate.Cmd{Args: []string{"python3", "-I", "-c", "1"}}, `"-I"`},
		{isolate.Cmd{Args: []string{"python3", "-uO", "x.py"}}, `"-uO"`},
		{isolate.Cmd{Args: []string{"python3", "-c"}}, "-c"},
		{isolate.Cmd{Args: []string{"python3", "x.py"}, Env: map[string]string{"PYTHONHASHSEED": "0"}}, "PYTHONHASHSEED"},
		{isolate.Cmd{Args: []string{"python3", "x.py"}, Env: map[string]string{"OMP_NUM_THREADS": "1"}}, "OMP_NUM_THREADS"},
		{isolate.Cmd{Args: []string{"python3"}, Terminal: &isolate.Terminal{Output: &bytes.Buffer{}}}, "terminal"},
	} {
		refused(t, r, p, c.cmd, c.word)
	}
}

// A module that cannot be imported, or that leaves what a fork would lose or
// share, is a refusal that says which.
func TestRefusedModules(t *testing.T) {
	r := open(t, isolate.Options{})
	dir := files(t, map[string]string{
		"raises.py":  "raise RuntimeError('on \\x1b[31mpurpose')",
		"exits.py":   "import os; os._exit(3)",
		"threads.py": "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
		"keeps.py":   "f = open('/etc/passwd')",
		"shares.py":  "import mmap; m = mmap.mmap(-1, 4096)",
		"greedy.py":  "b = bytearray(2 << 30)\nb[::4096] = bytes(len(b) // 4096)",
	})
	for module, words := range map[string][]string{
		"nothing_of_that": {"ModuleNotFoundError", "nothing_of_that"},
		"raises":          {"RuntimeError: on \uFFFD[31mpurpose"},
		"exits":           {"ended"},
		"threads":         {"1 threads running"},
		"keeps":           {"/etc/passwd"},
		"shares":          {"shares memory"},
		"greedy":          {"ended"},
	} {
		t.Run(module, func(t *testing.T) {
			p := preloading(t, "python:"+module)
			p.ReadOnly = []isolate.Bind{{Source: dir, Target: "/modules"}}
			p.Env = map[string]string{"PYTHONPATH": "/modules"}
			refused(t, r, p, isolate.Cmd{Args: []string{"python3", "-c", "1"}}, append(words, "cannot preload")...)
		})
	}
}

// When the template dies, sandboxes that are there go on, and the next run starts
// a new one.
func TestTemplateDies(t *testing.T) {
	r := open(t, isolate.Options{Spares: isolate.NoSpares})
	p := preloading(t, "python")
	s, err := r.Sandbox(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := templates(t)
	if len(all) != 1 {
		t.Fatalf("templates %v, want one", all)
	}
	if err := syscall.Kill(all[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the template is gone", func() bool { _, there := children(t)[all[0]]; return !there })
	if got := says(t, r, p, "print(1)"); got != "1" {
		t.Errorf("it said %q", got)
	}
	if res, err := s.Run(context.Background(), isolate.Cmd{Args: []string{"python3", "-c", "1"}}); err != nil || res.ExitCode != 0 {
		t.Errorf("the kept sandbox: %v, %s", err, res.Reason)
	}
}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// children are the processes below this one, with their parents.
func children(t *testing.T) map[int]int {
	t.Helper()
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		rest := text[bytes.LastIndexByte(text, ')')+1:]
		if _, err := fmt.Fscan(bufio.NewReader(bytes.NewReader(rest)), &state, &parent); err == nil && state != "Z" {
			parents[pid] = parent
		}
	}
	ours := map[int]int{}
	for pid := range parents {
		for up := parents[pid]; up != 0; up = parents[up] {
			if up == os.Getpid() {
				ours[pid] = parents[pid]
				break
			}
		}
	}
	return ours
}
