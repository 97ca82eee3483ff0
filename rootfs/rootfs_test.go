package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var id = Identity{UID: 1000, GID: 1000, User: "sandbox", Home: "/home/sandbox", Hostname: "box"}

func tree1(t *testing.T, dirs []string, links map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for l, to := range links {
		if err := os.Symlink(to, filepath.Join(root, l)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Every operation's target lies below what is being built, every parent is
// made before its child, and nothing is made twice.
func TestOperationsAreOrdered(t *testing.T) {
	root := tree1(t, []string{"usr/lib", "etc/alternatives", "dev", "lib64", "opt"}, map[string]string{"bin": "usr/bin", "sbin": "../outside"})
	files := []CopiedFile{{Target: "/data/a/b", Content: []byte("x"), Mode: 0o444}}
	binds := []BoundDir{{Source: "/srv/x", Target: "/data/c"}, {Source: "/srv/y", Target: "/opt/y"}}
	host, err := HostView(Look(Source{Root: root}), id, Machine{CPUs: 2, Memory: 1 << 20}, files, binds)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := DirView(BoundDir{Source: "/some/root"}, Source{Root: root}, id, Machine{CPUs: 1, Memory: 1 << 20}, files, binds)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]View{"host": host, "directory": dir} {
		made := map[string]bool{New: true, Skeleton: true}
		for _, o := range v.Ops {
			if !strings.HasPrefix(o.Target, New) && !strings.HasPrefix(o.Target, Skeleton) {
				t.Errorf("%s: %s is outside of the new root", name, o)
			}
			switch o.Kind {
			case Dir, Link, File:
				if made[o.Target] {
					t.Errorf("%s: %s is made twice", name, o.Target)
				}
				if !made[filepath.Dir(o.Target)] {
					t.Errorf("%s: %s comes before its directory", name, o.Target)
				}
				made[o.Target] = true
			}
		}
		for _, s := range v.Stages {
			if !strings.HasPrefix(s.Name, StageDir+"/") && s.Name != Dev {
				t.Errorf("%s: stage %s stands at %s", name, s.Source, s.Name)
			}
		}
	}
	if empty := StageDir + "/empty"; !slices.Contains(Directories(host.Stages), empty) || slices.Contains(Directories(hostStages(Source{Root: root})), empty) {
		t.Error("the empty directory is for binds, and only for them")
	}
	for _, o := range host.Ops {
		if o.Target == New+"/sbin" {
			t.Error("a link that leads out of /usr is in the view")
		}
	}
}

// Devices come after Seal: they cannot be opened on a nodev mount; everything
// else comes before.
func TestOnlyDevicesFollowSeal(t *testing.T) {
	v, err := HostView(Look(Source{Root: tree1(t, []string{"usr", "etc", "dev"}, nil)}), id, Machine{CPUs: 1, Memory: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(v.Ops, func(o Op) bool { return o.Kind == Seal })
	if at < 0 {
		t.Fatal("nothing is sealed")
	}
	for _, o := range v.Ops[at+1:] {
		if o.Kind != Bind || !strings.HasPrefix(o.Target, New+"/dev/") {
			t.Errorf("%s follows Seal", o)
		}
	}
}

// What the author's directory has at our mount points is hidden by the upper
// layer, not followed (CVE-2019-19921, CVE-2023-27561, CVE-2026-41579).
func TestSkeletonLiesOnTop(t *testing.T) {
	v, err := DirView(BoundDir{Source: "/hostile"}, Source{}, id, Machine{CPUs: 1, Memory: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range v.Ops {
		if o.Kind == Overlay && o.Target == New {
			if o.Source != Skeleton+":"+StageDir+"/root" {
				t.Errorf("layers are %s", o.Source)
			}
			return
		}
	}
	t.Error("no overlay")
}

func TestCheckDir(t *testing.T) {
	good := tree1(t, []string{"dev", "proc", "etc"}, map[string]string{"dev/ptmx": "pts/ptmx", "bin": "usr/bin"})
	if bad := CheckDir(good); len(bad) != 0 {
		t.Errorf("refused: %v", bad)
	}
	for _, p := range []string{"proc", "dev", "etc", "sys", "tmp", "workspace", "home", "run", "var"} {
		if bad := CheckDir(tree1(t, nil, map[string]string{p: "/"})); len(bad) != 1 {
			t.Errorf("%s as a link: %v", p, bad)
		}
	}
	if bad := CheckDir(tree1(t, []string{"dev"}, map[string]string{"dev/null": "/etc/shadow"})); len(bad) != 1 {
		t.Errorf("/dev/null as a link: %v", bad)
	}
	if bad := CheckDir("/nonexistent/dir"); len(bad) != 1 {
		t.Errorf("a directory that is not there: %v", bad)
	}
}

func TestMachineFiles(t *testing.T) {
	tr := newTree(New)
	machineFiles(tr, Machine{CPUs: 3, Quota: 250000, Memory: 512 << 20}, "sse")
	want := map[string]string{
		"/sys/devices/system/cpu/online": "0-2\n",
		"/sys/fs/cgroup/cpu.max":         "250000 100000\n",
		"/sys/fs/cgroup/memory.max":      "536870912\n",
	}
	for _, o := range tr.ops {
		if w, ok := want[strings.TrimPrefix(o.Target, New)]; ok {
			if string(o.Content) != w {
				t.Errorf("%s is %q, want %q", o.Target, o.Content, w)
			}
			delete(want, strings.TrimPrefix(o.Target, New))
		}
		if o.Target == New+StandIns+"/cpuinfo" && strings.Count(string(o.Content), "processor") != 3 {
			t.Errorf("cpuinfo is\n%s", o.Content)
		}
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}
