package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/rootfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// machine is a host that can do everything, with a root file system of the
// test's own.
func machine(t *testing.T) Facts {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"usr/bin", "usr/lib", "etc/alternatives", "etc/ssl/certs", "etc/ssl/private", "dev", "home/u", "run"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"bin": "usr/bin", "lib": "usr/lib"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"etc/shadow": "secret", "etc/ld.so.cache": "cache", "etc/hostname": "realhost"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Facts{
		EUID: 1000, EGID: 1000, CPUs: 4, LimitsBy: "cgroup2", Memory: Yes, PIDs: Yes, CPU: Yes, CPUTime: Yes,
		Notify: Yes, NotifyKillable: Yes, IPv6: Yes, Source: rootfs.Source{Root: root},
		MaskedFiles: []string{"/proc/kallsyms"}, MaskedDirs: []string{"/proc/bus"},
		LimitsProblem: Problem{What: "cannot limit", Rule: "nothing to limit with", Remedy: "get something"},
	}
}

func resolve(t *testing.T, p policy.Policy, f Facts) Plan {
	t.Helper()
	pl, err := Resolve(p, f)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func TestZeroPolicyGolden(t *testing.T) {
	f := machine(t)
	pl := resolve(t, policy.Policy{}, f)
	pl.Filter, pl.FilterDigest = nil, "sha256:filter" // its own golden is in seccompprofile
	for i, op := range pl.View.Ops {
		if strings.HasSuffix(op.Target, "/cpuinfo") { // holds the flags of this processor
			pl.View.Ops[i].Digest = "(of this machine)"
		}
	}
	pl.Digest, pl.CellKey = "sha256:plan", "sha256:cell"
	js, err := json.MarshalIndent(pl, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(js), f.Source.Root, "ROOT") + "\n" + pl.Text()
	golden(t, "zero.golden", got)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the plan differs from %s; read the difference, then use -update\n%s", path, got)
	}
}

func TestHostViewShowsNoSecrets(t *testing.T) {
	f := machine(t)
	pl := resolve(t, policy.Policy{}, f)
	for _, op := range pl.View.Ops {
		if strings.Contains(string(op.Content), "secret") || strings.Contains(string(op.Content), "realhost") {
			t.Errorf("%s holds what is the host's own", op.Target)
		}
		if op.Kind == rootfs.Bind && (strings.HasSuffix(op.Source, "/etc") || strings.Contains(op.Source, "private") || strings.Contains(op.Source, "home")) {
			t.Errorf("%s is shown at %s", op.Source, op.Target)
		}
	}
}

func TestDigest(t *testing.T) {
	f := machine(t)
	a := resolve(t, policy.Policy{}, f)
	if b := resolve(t, policy.Policy{}, f); a.Digest != b.Digest || a.CellKey != b.CellKey {
		t.Error("the same policy and facts gave another plan")
	}
	for name, p := range map[string]policy.Policy{
		"memory": {Memory: policy.GiB}, "pids": {PIDs: 7}, "wall": {Wall: time.Second},
		"env": {Env: map[string]string{"A": "b"}}, "profile": {Profile: policy.ProfileStrict},
		"grace": {Grace: time.Second}, "output": {Output: policy.KiB}, "host name": {Hostname: "x"},
		"end": {EndOnOutput: policy.EndRun}, "disk": {Disk: policy.MiB}, "files": {Files: 9},
	} {
		if b := resolve(t, p, f); a.Digest == b.Digest {
			t.Errorf("%s does not change the digest", name)
		}
	}
	if b := resolve(t, policy.Policy{Wall: time.Second, Env: map[string]string{"A": "b"}}, f); b.CellKey != a.CellKey {
		t.Error("a limit or a variable needs a cell of its own")
	}
	r := resolver{plan: a}
	r.plan.Digest, r.plan.CellKey = "", ""
	r.plan.View.Ops = append(slices.Clone(a.View.Ops), rootfs.Op{Kind: rootfs.Dir, Target: rootfs.New + "/x"})
	if b, err := r.finish(); err != nil || b.Digest == a.Digest || b.CellKey == a.CellKey {
		t.Errorf("the view does not change the digest (%v)", err)
	}
}

func TestMissingControllersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"memory":  func(f *Facts) { f.Memory = No },
		"pids":    func(f *Facts) { f.PIDs = No },
		"cpuacct": func(f *Facts) { f.CPUTime = No },
	} {
		t.Run(name, func(t *testing.T) {
			f := machine(t)
			change(&f)
			_, err := Resolve(policy.Policy{CPUTime: time.Second}, f)
			var r *Refusal
			if !errors.As(err, &r) || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Remedy, "--allow weak-limits") || !strings.Contains(r.Problems[0].Rule, name) {
				t.Fatalf("got %v, want a refusal that names the controller and the consent", err)
			}
			if told := strings.Contains(r.Problems[0].Remedy, "leave --cpu-time out"); told != (name == "cpuacct") {
				t.Errorf("the remedy is %q", r.Problems[0].Remedy)
			}
			pl := resolve(t, policy.Policy{CPUTime: time.Second, Allow: []policy.Weakening{policy.WeakLimits}}, f)
			if !slices.Contains(pl.Weakenings, policy.WeakLimits) || pl.Limits.By != "rlimits" {
				t.Errorf("the weakening is not recorded: %v, %s", pl.Weakenings, pl.Limits.By)
			}
		})
	}
}

// Consent that is not needed is not recorded.
func TestUnusedConsent(t *testing.T) {
	pl := resolve(t, policy.Policy{Allow: policy.Weakenings}, machine(t))
	if len(pl.Weakenings) != 0 {
		t.Errorf("weakenings %v, want none", pl.Weakenings)
	}
}

// All problems at once, each with a remedy, and none that a link hides
// (cases.md B 73).
func TestRefusalsComeTogether(t *testing.T) {
	f := machine(t)
	f.Surroundings = policy.Surroundings{Home: "/home/u"}
	f.Memory = No
	link := filepath.Join(t.TempDir(), "innocent")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	_, err := Resolve(policy.Policy{
		PIDs: -1,
		ReadOnly: []policy.Bind{
			{Source: link, Target: "/data"},
			{Source: "/nonexistent/x", Target: "/x"},
			{Source: "/dev/null", Target: "/y"},
		},
	}, f)
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatal(err)
	}
	text := r.Error()
	for _, want := range []string{"pids", `leads to "/proc"`, "/nonexistent/x", "memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("no word of %q in\n%s", want, text)
		}
	}
	for _, p := range r.Problems {
		if p.Remedy == "" {
			t.Errorf("%q has no remedy", p.What)
		}
	}
}

func TestReadOnlyFileIsCopied(t *testing.T) {
	f := machine(t)
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	pl := resolve(t, policy.Policy{ReadOnly: []policy.Bind{{Source: file, Target: "/data/x"}}}, f)
	for _, op := range pl.View.Ops {
		if op.Target == rootfs.New+"/data/x" {
			if op.Kind != rootfs.File || string(op.Content) != "content" || op.Mode != 0o555 {
				t.Errorf("got %+v, want a read-only executable copy", op)
			}
			return
		}
	}
	t.Error("the file is not in the view")
}

// A root file system whose mount points are links is refused
// (CVE-2019-19921, CVE-2025-31133, CVE-2026-41579).
func TestRootfsWithLinks(t *testing.T) {
	f := machine(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"proc", "etc", "dev/null"} {
		if err := os.Symlink("/tmp", filepath.Join(dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Resolve(policy.Policy{Rootfs: dir}, f)
	var r *Refusal
	if !errors.As(err, &r) || len(r.Problems) != 3 {
		t.Fatalf("got %v, want three problems", err)
	}
}

func TestProcMasks(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"kallsyms": 0o444, "kcore": 0o400, "cpuinfo": 0o444, "sysrq-trigger": 0o200} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bus"), 0o555); err != nil {
		t.Fatal(err)
	}
	files, dirs := ProcMasks(dir)
	if !slices.Equal(files, []string{"/proc/kallsyms"}) || !slices.Equal(dirs, []string{"/proc/bus"}) {
		t.Errorf("files %v, directories %v", files, dirs)
	}
}
