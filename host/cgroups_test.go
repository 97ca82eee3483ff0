package host

import (
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// cgroupsOf lays files over a state; mountinfo and cgroup decide nearly all.
func cgroupsOf(t *testing.T, state, over string) (Cgroups, Options) {
	t.Helper()
	o, _ := loadState(t, state, txtar.Parse([]byte(over)))
	return DetectCgroups(o), o
}

func TestDetectCgroups(t *testing.T) {
	const mount2 = "27 24 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for _, c := range []struct {
		name, state, over string
		mode              Mode
		memory            Controller
	}{
		{
			"delegated", "ready", "", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Group: Group{Dir: leaf, Writable: AccessYes}, Around: true, Available: true, Enabled: true},
		}, {
			"delegated, nothing handed on yet", "delegated-busy", "", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Group: Group{Dir: leaf, Writable: AccessYes}, Available: true},
		}, {
			"not delegated", "login-session", "", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Available: true, Reason: "cannot write to /sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope",
				Group: Group{Dir: "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope", Writable: AccessNo}},
		}, {
			"a folder with a leader child", "ready",
			"-- proc/self/cgroup --\n0::/d/leader\n" +
				"-- sys/fs/cgroup/d/cgroup.subtree_control --\nmemory pids\n-- sys/fs/cgroup/d/cgroup.procs --\n-- sys/fs/cgroup/d/cgroup.type --\ndomain\n" +
				"-- sys/fs/cgroup/d/leader/cgroup.controllers --\nmemory pids\n-- sys/fs/cgroup/d/leader/cgroup.procs --\n1\n" +
				"-- sys/fs/cgroup/d/leader/cgroup.subtree_control --\n-- sys/fs/cgroup/d/leader/cgroup.type --\ndomain\n" +
				"-- kernel.json --\n{\"owned\": [\"/sys/fs/cgroup/d\"]}\n", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Group: Group{Dir: "/sys/fs/cgroup/d", Writable: AccessYes}, Around: true, Available: true, Enabled: true},
		}, {
			"a scope in a slice that belongs to the user", "delegated-busy",
			"-- kernel.json --\n{\"owned\": [\"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service\"]}\n" +
				"-- sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/cgroup.subtree_control --\nmemory\n" +
				"-- sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/cgroup.procs --\n", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Group: Group{Dir: leaf, Writable: AccessYes}, Available: true},
		}, {
			"no controller handed down", "no-controllers", "", ModeCgroup2,
			Controller{Name: "memory", Reason: "not in " + leaf + "/cgroup.controllers"},
		}, {
			"the root itself", "ready",
			"-- proc/self/cgroup --\n0::/\n-- sys/fs/cgroup/cgroup.procs --\n-- sys/fs/cgroup/cgroup.subtree_control --\nmemory\n", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Available: true, Enabled: true, Reason: "cannot write to /sys/fs/cgroup",
				Group: Group{Dir: "/sys/fs/cgroup", Writable: AccessNo, Top: true}},
		}, {
			"version 1 in a container without a namespace", "cgroup1-given",
			"-- proc/self/cgroup --\n4:memory:/docker/5e1f/ada\n-- proc/self/mountinfo --\n33 24 0:31 /docker/5e1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", ModeCgroup1,
			Controller{Name: "memory", Version: 1, Group: Group{Dir: "/sys/fs/cgroup/memory/ada", Writable: AccessYes}, Available: true, Enabled: true},
		}, {
			"outside of what is mounted", "cgroup1-given",
			"-- proc/self/cgroup --\n4:memory:/elsewhere\n-- proc/self/mountinfo --\n33 24 0:31 /docker/5e1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", ModeNone,
			Controller{Name: "memory", Reason: "its hierarchy is not mounted where this process can see it"},
		}, {
			"outside of the cgroup namespace", "ready", "-- proc/self/cgroup --\n0::/../../other\n", ModeNone,
			Controller{Name: "memory", Reason: "not in /proc/self/cgroup"},
		}, {
			"a name that is only the beginning of another", "ready",
			"-- proc/self/cgroup --\n0::/podman-evil\n-- proc/self/mountinfo --\n27 24 0:25 /podman /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ModeNone,
			Controller{Name: "memory", Reason: "not in /proc/self/cgroup"},
		}, {
			"a colon in the path", "ready",
			"-- proc/self/cgroup --\n0::/a:b\n-- proc/self/mountinfo --\n" + mount2 +
				"-- sys/fs/cgroup/a:b/cgroup.controllers --\nmemory\n-- sys/fs/cgroup/a:b/cgroup.type --\ndomain\n", ModeCgroup2,
			Controller{Name: "memory", Version: 2, Group: Group{Dir: "/sys/fs/cgroup/a:b", Writable: AccessNo}, Available: true, Reason: "cannot write to /sys/fs/cgroup/a:b"},
		}, {
			"nothing to read", "ready", "-- delete --\n/proc/self/cgroup\n/proc/self/mountinfo\n", ModeNone,
			Controller{Name: "memory", Reason: "not in /proc/self/cgroup"},
		}, {
			"garbage", "ready", "-- proc/self/cgroup --\nx\n::\n:::\n0\n-- proc/self/mountinfo --\nno mount table\n", ModeNone,
			Controller{Name: "memory", Reason: "not in /proc/self/cgroup"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := cgroupsOf(t, c.state, c.over)
			if got.Mode != c.mode {
				t.Errorf("mode %q, want %q", got.Mode, c.mode)
			}
			if got.Memory != c.memory {
				t.Errorf("got  %+v\nwant %+v", got.Memory, c.memory)
			}
		})
	}
}

func TestHybridUsesBothHierarchies(t *testing.T) {
	c, _ := cgroupsOf(t, "hybrid", "")
	if c.Mode != ModeHybrid || c.CPU.Dir != "/sys/fs/cgroup/cpu,cpuacct/user.slice" || c.PIDs.Version != 1 {
		t.Errorf("%+v", c)
	}
	if want := "/sys/fs/cgroup/unified/user.slice/user-1000.slice/session-2.scope"; c.Unified.Dir != want {
		t.Errorf("unified %q, want %q", c.Unified.Dir, want)
	}
	if c.Memory.Usable() {
		t.Error("root's group counts as usable")
	}
}

// TestManagerAsked: with a manager that isolate asks, a session's group that
// cannot be changed is no reason to refuse; without its socket it is.
func TestManagerAsked(t *testing.T) {
	o, _ := loadState(t, "login-session")
	o.Manager = ManagerAsked
	for _, id := range []string{"cgroup.memory", "cgroup.kill"} {
		if c := Probe(t.Context(), o).Check(id); c.Status != Info {
			t.Errorf("%s with a manager: %v, %q", id, c.Status, c.Evidence)
		}
	}
	if b := Blocking(t.Context(), o); len(b) != 0 {
		t.Errorf("Blocking with a manager: %v", b)
	}
	o, _ = loadState(t, "login-session", txtar.Parse([]byte("-- delete --\n/run/user/1000/systemd\n")))
	o.Manager = ManagerAsked
	if c := Probe(t.Context(), o).Check("cgroup.memory"); c.Status != Fail {
		t.Errorf("without a manager: %v, %q", c.Status, c.Evidence)
	}
}

// TestAskChangesNoGroup: pids and cpu are never asked for alone, which would
// make a group one of threads, and the root of the hierarchy for nothing.
func TestAskChangesNoGroup(t *testing.T) {
	for _, c := range []struct {
		state, over string
		want        []string
	}{
		{"ready", "", []string{"", "", "", ""}},
		{"delegated-busy", "", []string{"+memory", "+memory +pids", "+memory +cpu", ""}},
		{"delegated-busy", "-- " + leaf[1:] + "/cgroup.controllers --\npids\n", []string{"", ""}},
		{"delegated-busy", "-- " + leaf[1:] + "/cgroup.subtree_control --\npids\n", []string{"+memory", "", "+memory +cpu", ""}},
		{"ready", "-- proc/self/cgroup --\n0::/\n", []string{"", "", "", ""}},
		{"hybrid", "", []string{"", "", "", ""}},
	} {
		o, k := loadState(t, c.state, txtar.Parse([]byte(c.over)))
		Probe(t.Context(), o)
		var got []string
		for _, g := range k.asked.Cgroups {
			got = append(got, g.Enable)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s with %q: asks %q, want %q", c.state, c.over, got, c.want)
		}
	}
}

func TestGivenCgroupsAreNotDetectedAgain(t *testing.T) {
	o, k := loadState(t, "ready")
	o.Cgroups = &Cgroups{Mode: ModeNone}
	r := Probe(t.Context(), o)
	if r.Cgroups.Mode != ModeNone || len(k.asked.Cgroups) != 0 {
		t.Errorf("mode %q, asked for %v", r.Cgroups.Mode, k.asked.Cgroups)
	}
}

func BenchmarkDetectCgroups(b *testing.B) {
	o := ThisProcess()
	for b.Loop() {
		DetectCgroups(o)
	}
}

func BenchmarkBlocking(b *testing.B) {
	o := ThisProcess()
	for b.Loop() {
		Blocking(b.Context(), o)
	}
}
