package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a testing.TB that remembers how the test would have ended.
type recorder struct {
	testing.TB
	verdict, text string
}

func (r *recorder) Helper()                     {}
func (r *recorder) Skipf(f string, args ...any) { r.end("skip", f, args...) }
func (r *recorder) Fatalf(f string, args ...any) {
	r.end("fail", f, args...)
}

// end leaves the test as the testing package does, by a way a deferred
// function sees.
func (r *recorder) end(verdict, f string, args ...any) {
	r.verdict, r.text = verdict, fmt.Sprintf(f, args...)
	panic(r)
}

// outcome is what require does when exactly the features of present are there.
func outcome(promised string, present map[Feature]bool, features ...Feature) (r *recorder) {
	r = &recorder{verdict: "run"}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	require(r, promised, func(f Feature) error {
		if present[f] {
			return nil
		}
		return errors.New("the cause")
	}, features)
	return r
}

func TestRequire(t *testing.T) {
	present := map[Feature]bool{UserNS: true}
	tests := []struct {
		name     string
		promised string
		features []Feature
		verdict  string
		text     string
	}{
		{"nothing needed", "", nil, "run", ""},
		{"present", "", []Feature{UserNS}, "run", ""},
		{"present and promised", "userns", []Feature{UserNS}, "run", ""},
		{"missing", "", []Feature{GCC}, "skip", "gcc: the cause"},
		{"missing, another promised", "node", []Feature{GCC}, "skip", "gcc: the cause"},
		{"missing and promised", "gcc", []Feature{GCC}, "fail", "gcc: the cause"},
		{"promised in a list with spaces", "userns, gcc,", []Feature{GCC}, "fail", "gcc: the cause"},
		{"one missing of two", "", []Feature{UserNS, Node}, "skip", "node: the cause"},
		// A skip for the first must not hide the broken promise of the second.
		{"second promised", "node", []Feature{GCC, Node}, "fail", "node: the cause"},
		{"promise is misspelt", "gc", []Feature{UserNS}, "fail", `"gc"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := outcome(tt.promised, present, tt.features...)
			if got.verdict != tt.verdict || !strings.Contains(got.text, tt.text) {
				t.Errorf("got %s %q, want %s with %q", got.verdict, got.text, tt.verdict, tt.text)
			}
		})
	}
}

func TestProbeIsAskedOnce(t *testing.T) {
	const f Feature = "for this test"
	asked := 0
	probes[f] = func() error { asked++; return errors.New("absent") }
	defer delete(probes, f)
	for range 2 {
		if err := probe(f); err == nil || err.Error() != "absent" {
			t.Errorf("probe says %v, want absent", err)
		}
	}
	if asked != 1 {
		t.Errorf("probed %d times, want 1", asked)
	}
	if err := probe("unheard of"); err == nil {
		t.Error("a feature nobody probes is there")
	}
}

func TestRootAndUnprivilegedExclude(t *testing.T) {
	if (root() == nil) == (unprivileged() == nil) {
		t.Errorf("root: %v; unprivileged: %v", root(), unprivileged())
	}
}

// Programs are found by running them: a file of the right name is not enough,
// and neither is one that fails.
func TestToolsAreRun(t *testing.T) {
	tools := map[Feature]string{GCC: "gcc", Python3: "python3", Node: "node", Bwrap: "bwrap", SystemdUser: "systemctl"}
	for f, tool := range tools {
		t.Run(string(f), func(t *testing.T) {
			sh, err := exec.LookPath("sh")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			if err := probes[f](); err == nil {
				t.Errorf("%s is there with an empty PATH", f)
			}
			for script, want := range map[string]bool{"exit 0": true, "echo broken; exit 3": false} {
				text := fmt.Sprintf("#!%s\n%s\n", sh, script)
				if err := os.WriteFile(filepath.Join(dir, tool), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				err := probes[f]()
				if (err == nil) != want {
					t.Errorf("with %q: %v", script, err)
				}
				if !want && !strings.Contains(err.Error(), "broken") {
					t.Errorf("error %q does not say what the tool said", err)
				}
			}
		})
	}
}

func TestCgroupProbesCleanUp(t *testing.T) {
	controllers := []string{"memory", "pids", "cpu"}
	for _, c := range controllers {
		cgroup1(c)
	}
	cgroup2(controllers...)
	for _, c := range append(controllers, "") {
		own, err := ownCgroup(c)
		if err != nil {
			continue // nothing was made where there is no hierarchy
		}
		for _, dir := range []string{own, filepath.Dir(own)} {
			left, err := filepath.Glob(filepath.Join(dir, probePrefix()+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("probes left %v, %v", left, err)
			}
		}
	}
}

func TestCgroupNeedsEveryController(t *testing.T) {
	for name, probe := range map[string]func(...string) error{"1": cgroup1, "2": cgroup2} {
		if err := probe("memory", "no-such-controller"); err == nil {
			t.Errorf("version %s gives a controller that does not exist", name)
		}
	}
}

// TestFeatures prints what this machine has. Where the lane promises features
// it fails for each that is missing, before any other test depends on it.
func TestFeatures(t *testing.T) {
	promises, err := parse(os.Getenv("ISOLATE_REQUIRE"))
	if err != nil {
		t.Fatal(err)
	}
	for f := range probes {
		if err := probe(f); err != nil {
			t.Logf("%s: missing: %v", f, err)
		} else {
			t.Logf("%s: here", f)
		}
	}
	Require(t, promises...)
	for _, f := range []Feature{Memory, PIDs} {
		if err := probe(f); err != nil && probe(Cgroup) == nil {
			t.Errorf("%s is part of %s, which is here, but: %v", f, Cgroup, err)
		}
	}
}
