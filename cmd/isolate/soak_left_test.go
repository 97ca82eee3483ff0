package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/client"
)

// footprint is what a server and the processes that it has hold when nothing
// runs.
type footprint struct {
	descriptors, threads, kib int // the server's own
	processes, mounts         int // of its descendants; mounts of all together
	cgroups, files            int // below our cgroup and in its directory
	// pool counts the cells that the server says it keeps for the next runs, and
	// what waits in them: seats, and sandboxes made ahead.
	pool int
}

func (f footprint) String() string {
	return fmt.Sprintf("%d descriptors, %d threads, %.1f MiB; %d processes with %d mounts, %d cgroups, %d files; a pool of %d",
		f.descriptors, f.threads, float64(f.kib)/1024, f.processes, f.mounts, f.cgroups, f.files, f.pool)
}

// beyond says in what a footprint is larger than one before by more than what
// the pool keeps (of the rare kinds of runs, the first may come late) and what a
// burst leaves; empty if in nothing. The pool itself is held against its bounds
// where it is counted.
func (f footprint) beyond(before footprint) string {
	pool := max(0, f.pool-before.pool)
	var grown []string
	for _, c := range []struct {
		what             string
		now, then, spare int
	}{
		{"descriptors", f.descriptors, before.descriptors, 60 + 6*pool},
		{"threads", f.threads, before.threads, 20},
		{"KiB of memory", f.kib, before.kib, before.kib/2 + 20<<10},
		{"processes", f.processes, before.processes, 8 + 3*pool},
		{"mounts", f.mounts, before.mounts, before.mounts/2 + 100 + 80*pool},
		{"cgroups", f.cgroups, before.cgroups, 40 + 4*pool},
		{"files", f.files, before.files, 20},
	} {
		if c.now > c.then+c.spare {
			grown = append(grown, fmt.Sprintf("%s: %d, were %d", c.what, c.now, c.then))
		}
	}
	return strings.Join(grown, "; ")
}

func (s *soak) footprint(pool client.PoolStats) footprint {
	s.t.Helper()
	pid := s.server.Process.Pid
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	f := footprint{
		descriptors: len(fds), threads: status(pid, "Threads:"), kib: status(pid, "VmRSS:"),
		cgroups: len(cgroupsBelow(s.t)), pool: pool.Cells + pool.Spares + pool.IdleSeats,
	}
	for _, p := range descendants(pid) {
		f.processes++
		mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p))
		f.mounts += bytes.Count(mounts, []byte("\n"))
	}
	err = filepath.WalkDir(s.dir, func(string, os.DirEntry, error) error {
		f.files++
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// status is a number of /proc/PID/status; 0 if the process is gone.
func status(pid int, field string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if p := strings.Fields(line); len(p) > 1 && p[0] == field {
			n, _ := strconv.Atoi(p[1])
			return n
		}
	}
	return 0
}

// processes are the numbers of all that we see.
func processes() (list []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if n, err := strconv.Atoi(filepath.Base(d)); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// descendants are the children of a process and theirs.
func descendants(of int) []int {
	parents := map[int]int{}
	for _, p := range processes() {
		parents[p] = status(p, "PPid:")
	}
	var list []int
	for p := range parents {
		for q := parents[p]; q > 1; q = parents[q] {
			if q == of {
				list = append(list, p)
				break
			}
		}
	}
	return list
}

// resting counts the programs that sleep until they are ended.
func (s *soak) resting() (n int) {
	for _, p := range processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if bytes.Equal(args, []byte("sleep\x00"+s.rest+"\x00")) {
			n++
		}
	}
	return n
}

func (s *soak) within(what string, true func() bool) {
	s.t.Helper()
	for began := time.Now(); !true(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			s.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// settle waits until nothing runs, and says what the server holds then. Each
// program has been counted.
func (s *soak) settle() footprint {
	s.t.Helper()
	s.within("all sandboxes to end", func() bool {
		st, err := s.client.Stats(context.Background())
		if err != nil {
			s.t.Fatal(err)
		}
		return st.Running == 0 && st.Kept == 0 && st.Pool.Sandboxes == 0
	})
	time.Sleep(300 * time.Millisecond) // what is made ahead
	st, err := s.client.Stats(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	var counted int64
	for _, n := range st.Pool.Runs {
		counted += int64(n)
	}
	if counted != s.ran.Load() {
		s.t.Errorf("the server has counted %d runs, and %d were made", counted, s.ran.Load())
	}
	if st.Pool.TearDownErrors != 0 {
		s.t.Errorf("%d tear-downs went wrong", st.Pool.TearDownErrors)
	}
	if n := s.resting(); n > 0 {
		s.t.Errorf("%d programs are still there", n)
	}
	// as Options.Spares and the pool have it
	each := 2*runtime.NumCPU() + max(8, 2*runtime.NumCPU(), st.Pool.MaxSandboxes)
	if p := st.Pool; p.Cells > p.MaxCells || p.Spares+p.IdleSeats > p.Cells*each {
		s.t.Errorf("the pool has %d cells with %d sandboxes made ahead and %d seats, of %d cells and %d sandboxes",
			p.Cells, p.Spares, p.IdleSeats, p.MaxCells, p.MaxSandboxes)
	}
	return s.footprint(st.Pool)
}

// nothingLeft is for after the end of the server.
func (s *soak) nothingLeft(groups []string) {
	s.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*/*")); len(left) > 0 {
		s.t.Errorf("the server left %v", left)
	}
	if n := s.resting(); n > 0 {
		s.t.Errorf("%d programs are still there", n)
	}
	for _, g := range cgroupsBelow(s.t) {
		if !slices.Contains(groups, g) {
			s.t.Errorf("cgroup %s is left", g)
		}
	}
}

// cgroupsBelow are the cgroups below our own, in all hierarchies.
func cgroupsBelow(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		p := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/" + p[1]} {
			_ = filepath.WalkDir(filepath.Join(top, p[2]), func(path string, d os.DirEntry, err error) error {
				if err != nil {
					return nil // another hierarchy has no such cgroup
				}
				if d.IsDir() && p[2] != "/" && !slices.Contains(list, path) {
					list = append(list, path)
				}
				return nil
			})
		}
	}
	return list
}
