package limits_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// remains lists what is left on the host of Runtimes that used a run-time
// directory: what is in it, cgroups named after them, mounts in it, and
// processes below ours that are not dead within the time which a killed tree
// may take on a busy machine. As long may systemd need to remove a scope that has become empty.
func remains(dir string, ids []string) []string {
	var left []string
	deadline := time.Now().Add(20 * time.Second)
	for {
		left = nil
		for _, p := range descendants(os.Getpid()) {
			left = append(left, "process "+p)
		}
		for _, id := range ids {
			left = append(left, scopesNamed(id)...)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		left = append(left, filepath.Join(dir, e.Name()))
	}
	for _, id := range ids {
		for _, c := range cgroupsNamed(id) {
			if filepath.Ext(c) != ".scope" {
				left = append(left, "cgroup "+c)
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left
}

// process is a line of the process table.
type process struct {
	pid, parent int
	state, name string
}

// processes is the process table of this pid namespace.
func processes() []process {
	var all []process
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // ended meanwhile
		}
		open, shut := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
		f := strings.Fields(string(b[shut+1:]))
		parent, _ := strconv.Atoi(f[1])
		all = append(all, process{pid, parent, f[0], string(b[open+1 : shut])})
	}
	return all
}

// reapOrphans waits for the dead that became our children when their parent
// was killed. No other child of ours may be about to end.
func reapOrphans() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid == 0 {
			return
		}
	}
}

// below lists what is below a process, the dead included, parents first.
func below(of int) []process {
	all := processes()
	in := map[int]bool{of: true}
	var out []process
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.parent] && !in[p.pid] {
				in[p.pid], grown = true, true
				out = append(out, p)
			}
		}
	}
	return out
}

// descendants is below, for people.
func descendants(of int) []string {
	var out []string
	for _, p := range below(of) {
		out = append(out, fmt.Sprintf("%d %s (%s, child of %d)", p.pid, p.name, p.state, p.parent))
	}
	return out
}

// cgroupsNamed lists cgroups whose name begins with an id, anywhere.
func cgroupsNamed(id string) []string {
	var out []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // removed meanwhile, or a file
		}
		if strings.HasPrefix(d.Name(), id) {
			out = append(out, path)
			return fs.SkipDir
		}
		return nil
	})
	return out
}

// scopesNamed lists the cgroups that systemd made for a Runtime with this id.
func scopesNamed(id string) []string {
	var out []string
	for _, c := range cgroupsNamed(id) {
		if filepath.Ext(c) == ".scope" {
			out = append(out, "scope "+c)
		}
	}
	return out
}

// openFiles lists this process's descriptors.
func openFiles(t testing.TB) []string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // not the listing's own
			out = append(out, e.Name()+" "+to)
		}
	}
	return out
}
