// Package cgroup limits and counts process trees: cgroup v2, v1 and hybrid.
//
// A Tree is the part of the hierarchy that is ours; a Leaf in it holds one
// sandbox. Every limit is read back after it was written: a limit that does
// not hold is an error, never a silence (trap T7). It changes only what is
// below Tree. It needs a cgroup file system that the caller may write to.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/kernfile"
)

// Controller is a cgroup controller by its v1 name.
type Controller string

// The controllers that are used. CPUAcct is part of CPU on v2.
const (
	Memory  Controller = "memory"
	PIDs    Controller = "pids"
	CPU     Controller = "cpu"
	CPUAcct Controller = "cpuacct"
)

var controllers = []Controller{Memory, PIDs, CPU, CPUAcct}

// Tree is a directory per hierarchy that belongs to this process alone.
type Tree struct {
	// v2 is the directory on the unified hierarchy, "" if it is not used.
	v2 string
	// v1 are what the paths of the leaves on the v1 hierarchies begin with.
	// There is no directory of the tree there: making and removing one on each
	// hierarchy took 0.4 ms of a cold start (docs/adr/0006-cold-start.md).
	v1   map[Controller]string
	have map[Controller]bool
	uid  int
	next atomic.Int64
	// made are the directories to remove on Close, deepest last.
	made []string
	// stop ends what keeps a v2 scope alive; nil if nothing does.
	stop func()
}

// By names what enforces: "cgroup2", "cgroup1", "hybrid", or "" if nothing.
func (t *Tree) By() string {
	switch {
	case t == nil || len(t.have) == 0:
		return ""
	case t.v2 != "" && len(t.v1) == 0:
		return "cgroup2"
	case t.v2 != "":
		return "hybrid"
	}
	return "cgroup1"
}

// Has tells whether a controller is usable.
func (t *Tree) Has(c Controller) bool { return t != nil && t.have[c] }

// Dirs lists the directories of the tree, for a later process to remove.
func (t *Tree) Dirs() []string { return append([]string(nil), t.made...) }

// Close removes the tree. Leaves must be gone.
func (t *Tree) Close() error {
	if t == nil {
		return nil
	}
	var errs []error
	if t.stop != nil {
		// the kernel takes nobody into a cgroup that gives controllers, and
		// lets it stop giving them only when its children do not use them
		for _, dir := range []string{filepath.Join(t.v2, keepers), t.v2} {
			errs = append(errs, removeDir(dir, time.Now().Add(2*time.Second)))
			t.forget(dir)
		}
		t.stop()
	}
	for i := len(t.made) - 1; i >= 0; i-- {
		if err := removeDir(t.made[i], time.Now().Add(2*time.Second)); err != nil {
			errs = append(errs, err)
		}
	}
	t.made = nil
	return errors.Join(errs...)
}

// Limits are the limits of a leaf.
type Limits struct {
	Memory int64   // bytes
	PIDs   int     // processes and threads
	CPUs   float64 // processors; 0 is not limited
	OOM    OOM
}

// OOM says what the kernel ends when the memory limit is met. On v1 it is
// always one process.
type OOM int

// The answers to the memory limit.
const (
	// EndAll ends every process of the leaf at once (memory.oom.group), a
	// sandbox's init included. It is the zero value.
	EndAll OOM = iota
	// EndOne ends one process, for a sandbox that is to live on.
	EndOne
)

// Usage is what a leaf has used since Reset.
type Usage struct {
	CPU        time.Duration
	MemoryPeak int64
	OOMKills   int64
	PIDsDenied int64
}

// Leaf is one cgroup, in as many hierarchies as the tree has.
type Leaf struct {
	tree *Tree
	name string
	base Usage // counters at the last Reset
	// set is what Set wrote last: nobody else writes to the leaf.
	set   Limits
	extra int

	mu   sync.Mutex
	open map[string]*kernfile.File // counters, by file name
	// FD is the directory for CLONE_INTO_CGROUP; nil on v1.
	FD *os.File
}

// NewLeaf makes a leaf. A nil or empty tree gives a leaf that limits nothing.
func (t *Tree) NewLeaf() (*Leaf, error) {
	l := &Leaf{tree: t}
	if t == nil || len(t.have) == 0 {
		return l, nil
	}
	l.name = leafName(t.next.Add(1))
	if err := l.make(); err != nil {
		l.Remove(0)
		return nil, fmt.Errorf("cannot make cgroup leaf: %w", err)
	}
	if t.v2 != "" {
		dir := leafV2(t.v2, l.name)
		fd, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.Remove(0)
			return nil, fmt.Errorf("cannot open cgroup leaf: %w", err)
		}
		l.FD = fd
		if err := t.open(dir); err != nil {
			l.Remove(0)
			return nil, fmt.Errorf("cannot open cgroup leaf for its user: %w", err)
		}
	}
	return l, nil
}

// leafName is the name of the tree's nth leaf, from 1 on.
func leafName(n int64) string { return "s" + strconv.FormatInt(n, 10) }

// leafV1 is the directory of a leaf beside those of others in a group of v1,
// leafV2 that in the directory of its tree.
func leafV1(tree, name string) string { return tree + "-" + name }
func leafV2(tree, name string) string { return filepath.Join(tree, name) }

// make makes the directories that Open has not made to see whether it may.
func (l *Leaf) make() error {
	for _, dir := range l.dirs() {
		if slices.Contains(l.tree.made, dir) {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// dirs lists each directory once: several v1 controllers may share one.
func (l *Leaf) dirs() []string {
	var out []string
	if l.tree.v2 != "" {
		out = append(out, leafV2(l.tree.v2, l.name))
	}
	for _, c := range controllers {
		if dir, v2 := l.on(c); dir != "" && !v2 && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// on returns the leaf's directory for a controller and whether it is v2.
func (l *Leaf) on(c Controller) (dir string, v2 bool) {
	if !l.tree.Has(c) {
		return "", false
	}
	if d := l.tree.v1[c]; d != "" {
		return leafV1(d, l.name), false
	}
	return leafV2(l.tree.v2, l.name), true
}

// Doors opens the leaf's groups on the v1 hierarchies: a process that writes
// "0" to each is in the leaf. That is the one move that does not wait for the
// kernel to be sure that nobody forks (docs/adr/0003-cgroup-moves.md). On v2
// processes are born in the leaf (FD).
func (l *Leaf) Doors() ([]*os.File, error) {
	if l.tree == nil {
		return nil, nil
	}
	var doors []*os.File
	done := map[string]bool{}
	for _, c := range controllers {
		dir, v2 := l.on(c)
		if dir == "" || v2 || done[dir] {
			continue
		}
		done[dir] = true
		f, err := os.OpenFile(filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			for _, d := range doors {
				d.Close()
			}
			return nil, fmt.Errorf("cannot open cgroup: %w", err)
		}
		doors = append(doors, f)
	}
	return doors, nil
}

// Set writes the limits and reads them back. extra processes (the seat and the
// init) are added to the limit of processes.
func (l *Leaf) Set(lim Limits, extra int) error {
	if lim == l.set && extra == l.extra {
		return nil
	}
	l.set, l.extra = Limits{}, 0
	if err := l.write(lim, extra); err != nil {
		return err
	}
	l.set, l.extra = lim, extra
	return nil
}

func (l *Leaf) write(lim Limits, extra int) error {
	if dir, v2 := l.on(Memory); dir != "" {
		if err := setMemory(dir, v2, lim); err != nil {
			return err
		}
	}
	if dir, _ := l.on(PIDs); dir != "" {
		if err := setChecked(dir, "pids.max", strconv.Itoa(lim.PIDs+extra)); err != nil {
			return err
		}
	}
	if dir, v2 := l.on(CPU); dir != "" {
		return setCPU(dir, v2, lim.CPUs)
	}
	return nil
}

func setMemory(dir string, v2 bool, lim Limits) error {
	text := strconv.FormatInt(lim.Memory, 10)
	if v2 {
		if err := setChecked(dir, "memory.max", text); err != nil {
			return err
		}
		// no swap; the file is absent on a kernel without swap
		if err := write(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		group := "1"
		if lim.OOM == EndOne {
			group = "0"
		}
		return setChecked(dir, "memory.oom.group", group)
	}
	// socket buffers are counted apart from the rest
	if err := write(dir, "memory.kmem.tcp.limit_in_bytes", text); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// memsw must not be below memory: with a larger new limit it goes first
	_ = write(dir, "memory.memsw.limit_in_bytes", text)
	if err := setChecked(dir, "memory.limit_in_bytes", text); err != nil {
		return err
	}
	if err := write(dir, "memory.memsw.limit_in_bytes", text); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// cpuPeriod is the period of the bandwidth controller in microseconds, the
// kernel's default.
const cpuPeriod = 100000

func setCPU(dir string, v2 bool, cpus float64) error {
	quota := "max"
	if cpus > 0 {
		// the kernel takes no quota below 1 ms
		quota = strconv.Itoa(max(1000, int(cpus*cpuPeriod)))
	}
	if v2 {
		return setChecked(dir, "cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod))
	}
	if cpus == 0 {
		quota = "-1"
	}
	return setChecked(dir, "cpu.cfs_quota_us", quota)
}

// setChecked writes a setting and compares what the kernel then says. Sizes
// may be rounded down to pages.
func setChecked(dir, file, text string) error {
	if err := write(dir, file, text); err != nil {
		return err
	}
	got, err := read(dir, file)
	if err != nil {
		return err
	}
	if got == text {
		return nil
	}
	want, err1 := strconv.ParseInt(text, 10, 64)
	have, err2 := strconv.ParseInt(got, 10, 64)
	if err1 == nil && err2 == nil && have <= want && want-have < 4096 {
		return nil
	}
	return fmt.Errorf("cannot set %s: wrote %q, the kernel says %q", filepath.Join(dir, file), text, got)
}

func write(dir, file, text string) error {
	return kernfile.Write(filepath.Join(dir, file), text)
}

func read(dir, file string) (string, error) {
	b, err := kernfile.Read(filepath.Join(dir, file))
	return strings.TrimSpace(string(b)), err
}

// Kill sends SIGKILL to every process of the leaf but one. It does not wait, and
// what is just being forked may escape it: the caller does it again until the
// leaf is empty.
func (l *Leaf) Kill(except int) {
	if l.tree == nil || l.name == "" {
		return
	}
	dir := l.dirs()[0]
	if l.FD != nil && write(dir, "cgroup.kill", "1") == nil { // Linux 5.14
		return
	}
	// A number may be given to another process at any time: what is signalled
	// is a handle, opened before the number was seen in the leaf once more.
	handles := map[int]int{}
	for _, pid := range l.procs(dir) {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil && pid != except {
			handles[pid] = fd
		} else if err == nil {
			unix.Close(fd)
		}
	}
	for _, pid := range l.procs(dir) {
		if fd, ok := handles[pid]; ok {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
	}
	for _, fd := range handles {
		unix.Close(fd)
	}
}

func (l *Leaf) procs(dir string) []int {
	text, _ := read(dir, "cgroup.procs")
	var pids []int
	for _, f := range strings.Fields(text) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Remove removes the leaf; it waits up to the given time for the last process
// to be gone. It is idempotent.
func (l *Leaf) Remove(wait time.Duration) error {
	l.closeCounters()
	if l.FD != nil {
		l.FD.Close()
		l.FD = nil
	}
	if l.tree == nil || l.name == "" {
		return nil
	}
	var errs []error
	for _, dir := range l.dirs() {
		errs = append(errs, removeDir(dir, time.Now().Add(wait)))
	}
	return errors.Join(errs...)
}

// removeDir removes one cgroup. EBUSY means that a dead process is not yet
// quite gone.
func removeDir(dir string, until time.Time) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY || !time.Now().Before(until) {
			return &os.PathError{Op: "remove cgroup", Path: dir, Err: err}
		}
		time.Sleep(pause)
	}
}
