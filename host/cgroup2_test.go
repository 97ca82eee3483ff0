package host

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/internal/testenv"
)

// TestCgroup2 runs in each of the places version 2 gives an ordinary user:
// a leaf of a folder that is the user's, a scope with Delegate=yes, a login
// session whose group is root's.
func TestCgroup2(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.Unprivileged)
	r := Probe(t.Context(), ThisProcess())
	if r.Cgroups.Mode != ModeCgroup2 {
		t.Errorf("mode %q", r.Cgroups.Mode)
	}
	for _, c := range r.Cgroups.Controllers() {
		check := r.Check("cgroup." + c.Name)
		t.Logf("%s: %v, %q; %+v", check.ID, check.Status, check.Evidence, c)
		switch {
		case c.Usable() && c.Enabled:
			if check.Status != OK || !strings.Contains(check.Evidence, "read it back") {
				t.Errorf("%s: %v, %q", check.ID, check.Status, check.Evidence)
			}
		case c.Usable():
			if check.Status != OK || !strings.Contains(check.Evidence, "answered EBUSY") {
				t.Errorf("%s: %v, %q", check.ID, check.Status, check.Evidence)
			}
		case r.Cgroups.UserManager == "":
			t.Errorf("%s: no place for limits and nobody to ask, which testenv found to be there", check.ID)
		case c.Name != "cpu":
			if check.Status != Fail || !strings.Contains(check.Remedy, "systemd-run --user --scope") {
				t.Errorf("%s: %v, %q", check.ID, check.Status, check.Remedy)
			}
		}
	}
	if r.Cgroups.Memory.Usable() {
		if c := r.Check("cgroup.kill"); c.Status != OK {
			t.Errorf("cgroup.kill: %v, %q", c.Status, c.Evidence)
		}
	}
}

// TestVacatedGroup proves what the probe concludes from EBUSY: after the
// processes have moved into a child, the group's controllers can be used.
func TestVacatedGroup(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.Unprivileged)
	before := DetectCgroups(ThisProcess()).Memory
	if !before.Usable() || before.Enabled {
		t.Skip("needs a delegated group that still holds this process: a scope with Delegate=yes")
	}
	leaf := before.Dir + "/isolate-host-test"
	pid := []byte(strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, undo := range []error{
			os.WriteFile(before.Dir+"/cgroup.subtree_control", []byte("-memory -pids"), 0),
			os.WriteFile(before.Dir+"/cgroup.procs", pid, 0),
			os.Remove(leaf),
		} {
			if undo != nil {
				t.Error(undo)
			}
		}
	})
	if err := os.WriteFile(leaf+"/cgroup.procs", pid, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(before.Dir+"/cgroup.subtree_control", []byte("+memory +pids"), 0); err != nil {
		t.Fatal(err)
	}
	r := Probe(t.Context(), ThisProcess())
	if m := r.Cgroups.Memory; m.Dir != before.Dir || !m.Around || !m.Usable() {
		t.Errorf("%+v", m)
	}
	for _, id := range []string{"cgroup.memory", "cgroup.pids"} {
		if c := r.Check(id); c.Status != OK || !strings.Contains(c.Evidence, "read it back") {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
	for _, id := range []string{"cgroup.oom-group", "cgroup.kill"} {
		if c := r.Check(id); c.Status != OK {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
}
