package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParsePlace(t *testing.T) {
	for _, c := range []struct {
		name       string
		mounts     string
		own        string
		v2         string
		memory     string
		cpu, cpuac string
	}{
		{
			name:   "unified",
			mounts: "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
			own:    "0::/user.slice/user-1000.slice/session-2.scope\n",
			v2:     "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope",
		},
		{
			name: "hybrid",
			mounts: "1 2 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"1 2 0:4 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"1 2 0:5 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			own:    "4:memory:/a/b\n2:cpu,cpuacct:/\n0::/x\n",
			v2:     "/sys/fs/cgroup/unified/x",
			memory: "/sys/fs/cgroup/memory/a/b",
			cpu:    "/sys/fs/cgroup/cpu,cpuacct",
			cpuac:  "/sys/fs/cgroup/cpu,cpuacct",
		},
		{
			name:   "a mount of a part, as in a container",
			mounts: "1 2 0:3 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			own:    "4:memory:/docker/abc/inner\n",
			memory: "/sys/fs/cgroup/memory/inner",
		},
		{
			name:   "a name that begins alike is not below",
			mounts: "1 2 0:3 /podman /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			own:    "4:memory:/podman-evil\n",
		},
		{
			name:   "outside of the cgroup namespace",
			mounts: "1 2 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			own:    "4:memory:/../x\n",
		},
		{name: "nothing", own: "0::/\n"},
		{name: "rubbish", mounts: "- - -\n\n1 2 - cgroup\n", own: "::\nx\n1:memory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parsePlace(c.mounts, c.own)
			if p.V2 != c.v2 || p.V1[Memory] != c.memory || p.V1[CPU] != c.cpu || p.V1[CPUAcct] != c.cpuac {
				t.Errorf("got %+v", p)
			}
			if movable := c.v2 != "" && c.memory == ""; p.Movable() != movable {
				t.Errorf("it may be moved: %v, want %v", p.Movable(), movable)
			}
		})
	}
}

func TestKeyed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &Leaf{}
	defer l.closeCounters()
	for key, want := range map[string]int64{"oom_kill": 2, "oom": 3, "absent": 0} {
		if got, err := l.keyed(dir, "memory.events", key); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", key, got, err, want)
		}
	}
	if _, err := l.keyed(dir, "nothing", "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// A damaged list of a dead process must not make us remove what is not ours.
func TestRemoveAllKeepsToItsName(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"isolate-0123456789ab", "isolate-0123456789ab/s1", "isolate-0123456789ab-s1", "isolate-0123456789ab-s12", "other", "isolate-0123456789abc-s1", "isolate-0123456789ab-supervisor"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	RemoveAll([]string{filepath.Join(dir, "isolate-0123456789ab"), filepath.Join(dir, "other"), "relative", "/", filepath.Join(dir, "isolate-0123456789ab-supervisor")}, "isolate-0123456789ab")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "isolate-0123456789abc-s1" || left[1].Name() != "other" {
		t.Errorf("left %v, %v; want what is another's", left, err)
	}
}

// On v1 a tree is nothing but its leaves, and the first of them is made when it
// is opened.
func TestLeavesStandBesideEachOther(t *testing.T) {
	own := t.TempDir()
	tree := Place{V1: map[Controller]string{Memory: own, PIDs: own}}.Open(t.Context(), "isolate-0123456789ab", os.Geteuid())
	if tree.By() != "cgroup1" || !tree.Has(Memory) || !tree.Has(PIDs) || tree.Has(CPU) {
		t.Errorf("opened %+v", tree)
	}
	there := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(own)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("there are %q, %v; want %q", got, err, want)
		}
	}
	there("isolate-0123456789ab-s1")
	first, err := tree.NewLeaf()
	if err != nil {
		t.Fatal(err)
	}
	second, err := tree.NewLeaf()
	if err != nil {
		t.Fatal(err)
	}
	there("isolate-0123456789ab-s1", "isolate-0123456789ab-s2")
	if err := first.Remove(0); err != nil {
		t.Error(err)
	}
	there("isolate-0123456789ab-s2")
	if err := second.Remove(0); err != nil {
		t.Error(err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	there()

	// nobody needed a leaf
	if err := (Place{V1: map[Controller]string{Memory: own}}.Open(t.Context(), "isolate-0123456789ab", os.Geteuid())).Close(); err != nil {
		t.Error(err)
	}
	there()
	// nobody may make one
	if tree := (Place{V1: map[Controller]string{Memory: filepath.Join(own, "absent")}}).Open(t.Context(), "isolate-0123456789ab", os.Geteuid()); tree.By() != "" {
		t.Errorf("opened %+v where nothing can be made", tree)
	}
}

func TestSetChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "memory.max")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setChecked(dir, "memory.max", "4096"); err != nil {
		t.Error(err)
	}
	// A file that does not take what is written stands for a kernel that
	// ignores a limit (trap T7).
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", file); err != nil {
		t.Fatal(err)
	}
	if err := setChecked(dir, "memory.max", "4096"); err == nil {
		t.Error("a limit that does not hold was taken")
	}
}

// A supervisor that stands in a child of a delegated unit makes its tree in the
// unit: the next start must know that place before it is made. Found by killing
// supervisors under systemd.
func TestCandidatesAboveUs(t *testing.T) {
	got := Place{V2: "/sys/fs/cgroup/user.slice/x.scope/isolate-1-supervisor"}.Candidates("isolate-2")
	for _, want := range []string{
		"/sys/fs/cgroup/user.slice/x.scope/isolate-2", "/sys/fs/cgroup/user.slice/x.scope/isolate-2-supervisor",
		"/sys/fs/cgroup/user.slice/x.scope/isolate-1-supervisor/isolate-2-supervisor", "/sys/fs/cgroup/isolate-2",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %q", want, got)
		}
	}
}
