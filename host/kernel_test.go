package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// doneByNamespaces are the checks that hold wherever user namespaces do.
var doneByNamespaces = []string{
	"userns.create", "userns.nested", "userns.close", "net.loopback", "mount.tmpfs", "mount.bind",
	"mount.pivot", "proc.mount", "proc.subset", "memfd.exec", "inotify.watch", "kernel.seccomp-notify",
}

func TestProbesHoldHere(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := Probe(t.Context(), ThisProcess())
	for _, id := range doneByNamespaces {
		if c := r.Check(id); c.Status != OK || !strings.HasPrefix(c.Evidence, "did: ") {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
}

// TestProbesHoldForAnOrdinaryUser runs as user 1500 if the tests run as root.
func TestProbesHoldForAnOrdinaryUser(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := ask(t, helperCommand(t, "as-is", ordinary()))
	for _, id := range doneByNamespaces {
		if c := s.check(id); c.Status != OK || !strings.HasPrefix(c.Evidence, "did: ") {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
	if c := s.check("identity.root"); c.Status != OK {
		t.Errorf("identity.root: %v, %q", c.Status, c.Evidence)
	}
}

func TestCgroupsAsRoot(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup1)
	r := Probe(t.Context(), ThisProcess())
	for _, id := range []string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"} {
		if c := r.Check(id); c.Status != OK || !strings.Contains(c.Evidence, "read it back") {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
}

// TestCgroupsNotOurs: the groups of version 1 are root's.
func TestCgroupsNotOurs(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup1)
	s := ask(t, helperCommand(t, "as-is", ordinary()))
	if s.Report.Verdict != CannotRun {
		t.Errorf("verdict %v", s.Report.Verdict)
	}
	for _, id := range []string{"cgroup.memory", "cgroup.pids"} {
		c := s.check(id)
		if c.Status != Fail || c.Allow != "weak-limits" || c.What != strings.ReplaceAll(controllerOld.what, "{controller}", strings.TrimPrefix(id, "cgroup.")) {
			t.Errorf("%s: %v, %q", id, c.Status, c.What)
		}
	}
	if got := idsOf(s.Blocking, Fail); !slices.Equal(got, []string{"cgroup.memory", "cgroup.pids"}) {
		t.Errorf("Blocking: %q", got)
	}
}

// TestCgroupsGiven: root gives an ordinary user a group per controller.
func TestCgroupsGiven(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Cgroup1)
	dirs := ownGroups(t)
	cmd := helperCommand(t, "wait", ordinary())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if err := os.WriteFile(d+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Error(err)
		}
	}
	fmt.Fprintln(in)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s := decodeSeen(t, []byte(out.String()))
	for i, id := range []string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"} {
		if c := s.check(id); c.Status != OK || !strings.Contains(c.Evidence, dirs[i]) || !strings.Contains(c.Evidence, "read it back") {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
	if len(s.Blocking) != 0 {
		t.Errorf("Blocking: %v", s.Blocking)
	}
	for _, d := range dirs {
		if left := subdirs(t, d); len(left) > 0 {
			t.Errorf("left in %s: %q", d, left)
		}
	}
}

// TestSubordinateIDs: where the user has a range it is mapped, by doing. What
// programs have is told nevertheless.
func TestSubordinateIDs(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.SubUID)
	r := Probe(t.Context(), ThisProcess())
	if c := r.Check("identity.map"); c.Status != OK || r.Identity != SingleID {
		t.Errorf("%v, %q, identity %q", c.Status, c.Evidence, r.Identity)
	}
}

// traces are what a probe could leave behind.
type traces struct {
	mounts, groups []string
	handedOn       string // controllers of the own version 2 group
	fds            int
}

func traced(t *testing.T) traces {
	t.Helper()
	var tr traces
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	// Other tests of this machine may mount elsewhere at the same time.
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); slices.Contains(append(spots, "/proc"), f[4]) {
			tr.mounts = append(tr.mounts, line)
		}
	}
	mine := "isolate-host-probe-" + strconv.Itoa(os.Getpid())
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), mine) {
			tr.groups = append(tr.groups, p)
		}
		return nil // groups of others come and go
	})
	if dir := DetectCgroups(ThisProcess()).Unified.Dir; dir != "" {
		b, err := os.ReadFile(dir + "/cgroup.subtree_control")
		if err != nil {
			t.Fatal(err)
		}
		tr.handedOn = string(b)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	tr.fds = len(fds)
	return tr
}

// adopt makes orphans of this process's children its own children.
func adopt(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// childless fails if this process has children; those that are ending get a
// moment, for a killed child of a child is reaped by its parent's namespace.
func childless(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil)
		if err == unix.ECHILD {
			return
		}
		if pid == 0 && time.Now().After(deadline) {
			t.Fatal("a child is still running")
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	adopt(t)
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	short := ThisProcess()
	short.Timeout = 3 * time.Millisecond // ends children half-way
	for name, run := range map[string]func(){
		"Probe":              func() { Probe(t.Context(), ThisProcess()) },
		"Blocking":           func() { Blocking(t.Context(), ThisProcess()) },
		"Explain":            func() { Explain(t.Context(), ThisProcess(), errEPERM) },
		"children that hang": func() { Probe(t.Context(), short) },
		"a context that ends": func() {
			c, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			Probe(c, ThisProcess())
		},
	} {
		t.Run(name, func(t *testing.T) {
			run() // once before, for descriptors that the runtime opens once
			childless(t)
			before := traced(t)
			for range rounds {
				run()
			}
			childless(t)
			after := traced(t)
			if !slices.Equal(before.mounts, after.mounts) {
				t.Errorf("mounts before %q, after %q", before.mounts, after.mounts)
			}
			if len(after.groups) > 0 {
				t.Errorf("control groups left: %q", after.groups)
			}
			if before.handedOn != after.handedOn {
				t.Errorf("cgroup.subtree_control before %q, after %q", before.handedOn, after.handedOn)
			}
			// A newuidmap that was given up closes its pipe when it ends.
			for deadline := time.Now().Add(30 * time.Second); after.fds > before.fds && time.Now().Before(deadline); after = traced(t) {
				time.Sleep(10 * time.Millisecond)
			}
			if after.fds > before.fds {
				t.Errorf("%d descriptors before, %d after", before.fds, after.fds)
			}
		})
	}
}

// TestBlockingStartsNothing: a run pays for no process.
func TestBlockingStartsNothing(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	if out, err := helperCommand(t, "blocking-alone", ordinary()).Output(); err != nil {
		t.Errorf("Blocking where processes are forbidden: %v, %q", err, out)
	}
	// The same bar does stop what starts processes.
	if out, err := helperCommand(t, "probe-alone", ordinary()).Output(); err == nil {
		t.Errorf("Probe where processes are forbidden: %q", out)
	}
}

// TestContextThatHasEnded: what was not reached does not pass.
func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Probe(ctx, ThisProcess())
	if r.Verdict() != CannotRun {
		t.Errorf("verdict %v", r.Verdict())
	}
	if c := r.Check("userns.create"); c.Status != Fail || !strings.Contains(c.Evidence, "context canceled") {
		t.Errorf("userns.create: %v, %q", c.Status, c.Evidence)
	}
}

func subdirs(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// Above the runtime directory a link is followed, and what it leads to judged.
func TestRundirParentLinks(t *testing.T) {
	top := t.TempDir()
	for _, d := range []string{"good/a", "loose/a", "sticky/a"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for d, mode := range map[string]os.FileMode{"loose": 0o777, "sticky": os.ModeSticky | 0o777} {
		if err := os.Chmod(filepath.Join(top, d), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"to-good": "good/a", "to-loose": filepath.Join(top, "loose/a"), "to-sticky": "good/../sticky/a", "twice": "to-loose", "round": "round", "lost": "nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]Status{
		"good/a": OK, "to-good": OK, "to-sticky": OK, "lost": OK, "loose/a": Fail, "to-loose": Fail, "twice": Fail, "round": Fail,
	} {
		o := ThisProcess()
		o.RuntimeDir = filepath.Join(top, dir, "isolate")
		if c := checkRundirParent(look(o)); c.Status != want {
			t.Errorf("%s: %v (%s), want %v", dir, c.Status, c.Evidence, want)
		}
		bad := slices.ContainsFunc(Blocking(t.Context(), o), func(c Check) bool { return c.ID == rundirParent.id })
		if bad != (want == Fail) {
			t.Errorf("%s: a run is refused for it: %v", dir, bad)
		}
	}
}
