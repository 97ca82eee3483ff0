package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// The bars of memory: what a cell takes in which nothing runs, and what a
// sandbox takes beyond its program.
const (
	idleCellBar = 15 << 20
	sandboxBar  = 2 << 20
)

func TestMemory(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := runWarm(ctx, r); err != nil {
		t.Fatal(err)
	}
	idle := farSide(t)
	if len(idle) == 0 {
		t.Fatal("there is no cell")
	}
	cell := share(t, idle)
	t.Logf("idle cell: %d processes, %d KiB", len(idle), cell>>10)
	if cell > idleCellBar {
		t.Errorf("an idle cell takes %d bytes, want at most %d", cell, idleCellBar)
	}

	box, err := r.Sandbox(ctx, policy.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var own, charged int64
	whileRunning, looked := context.WithCancel(ctx)
	res, err := box.Run(whileRunning, isolate.Cmd{Args: []string{"/bin/" + sleeper, "600"}, Started: func(now isolate.Running) {
		defer looked()
		own = share(t, farSide(t)) - cell
		if u, err := now.Usage(); err == nil {
			charged = u.Memory
		}
	}})
	if err != nil || res.Reason != isolate.ReasonCancelled {
		t.Fatalf("%s %s: %v", res.Reason, res.Detail, err)
	}
	t.Logf("sandbox: %d KiB beyond the cell, %d KiB charged to its cgroup, kernel memory and program included", own>>10, charged>>10)
	if own > sandboxBar {
		t.Errorf("a sandbox takes %d bytes beyond its program, want at most %d", own, sandboxBar)
	}
	if charged > sandboxBar+programBar {
		t.Errorf("%d bytes are charged to a sandbox, want at most %d and %d for its program", charged, sandboxBar, programBar)
	}
}

// programBar is more than /bin/sleep takes: its pages, stack and page tables.
const programBar = 1 << 20

// sleeper is the program that runs while memory is counted.
const sleeper = "sleep"

// farSide lists the processes below this one that are isolate's own: keepers,
// seats and inits.
func farSide(t *testing.T) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	parent := map[int]int{}
	ours := map[int]bool{}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, rest, _ := strings.Cut(string(b), " (")
		comm, rest, _ := strings.Cut(rest, ") ")
		n, _ := strconv.Atoi(pid)
		if f := strings.Fields(rest); len(f) > 1 {
			parent[n], _ = strconv.Atoi(f[1])
		}
		ours[n] = comm != sleeper
	}
	var out []int
	for pid := range parent {
		for p := pid; p > 1; p = parent[p] {
			if p == os.Getpid() && pid != p && ours[pid] {
				out = append(out, pid)
			}
		}
	}
	return out
}

// share is the memory of some processes with their page tables. They let nobody
// look at their pages (not dumpable), so a page that several have counts for
// each: the true figure is lower.
func share(t *testing.T, pids []int) int64 {
	t.Helper()
	var sum int64
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the init of a run before, which has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			switch name {
			case "VmRSS", "VmPTE":
				kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += kib << 10
			}
		}
	}
	return sum
}
