package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// patience is how long anything may take that must end by itself: long, for a
// machine that does other things too.
const patience = 60 * time.Second

// lab is a runtime with a directory of its own, and what is checked after it.
type lab struct {
	*isolate.Runtime
	dir        string          // the run-time directory
	namespaces map[string]bool // of this process, before
}

// newLab opens a runtime. When the test ends it must still run programs, and
// after Close nothing may be left: no process, no cgroup, no file.
func newLab(t *testing.T, need ...testenv.Feature) *lab {
	return newLabWith(t, isolate.Options{Spares: isolate.NoSpares}, need...)
}

func newLabWith(t *testing.T, o isolate.Options, need ...testenv.Feature) *lab {
	t.Helper()
	testenv.Require(t, append(need, testenv.UserNS, testenv.Memory, testenv.PIDs)...)
	if o.Dir == "" {
		o.Dir = filepath.Join(tempDir(t), "canary-runtime")
	}
	before := ownNamespaces(t)
	rt, err := isolate.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{rt, o.Dir, before}
	t.Cleanup(func() { l.finish(t) })
	return l
}

// finish is the last check of every test.
func (l *lab) finish(t *testing.T) {
	l.works(t)
	ours, err := os.ReadDir(l.dir)
	if err != nil || len(ours) != 1 {
		t.Errorf("run-time directory has %v, %v; want one entry", ours, err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	left, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("files are left in the run-time directory: %v, %v", left, err)
	}
	for _, e := range ours {
		for _, dir := range cgroupsNamed(e.Name()) {
			t.Errorf("cgroup is left: %s", dir)
		}
	}
	for _, p := range descendants() {
		t.Errorf("process is left: %s", p)
	}
	for name := range maps.Keys(ownNamespaces(t)) {
		if !l.namespaces[name] {
			t.Errorf("a thread of this process is in another namespace than before: %s", name)
		}
	}
}

// ownNamespaces are the namespaces of all threads of this process. It must
// never enter a sandbox's itself.
func ownNamespaces(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	links, err := filepath.Glob("/proc/self/task/*/ns/*")
	if err != nil || len(links) == 0 {
		t.Fatal(links, err)
	}
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil { // else the thread has ended
			found[name] = true
		}
	}
	return found
}

// works runs a program that prints 42.
func (l *lab) works(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := l.Run(ctx, isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/sh", "-c", "echo $((6*7))"}})
	if err != nil {
		t.Errorf("the runtime does not run programs any more: %v", err)
	} else if got := string(res.Stdout.Kept); got != "42\n" || res.Reason != isolate.ReasonExit {
		t.Errorf("the runtime does not work any more: %q, %s %s %s", got, res.Reason, res.Detail, res.Stderr.Kept)
	}
}

// run runs a program that isolate must be able to run, whatever the program does.
func (l *lab) run(t *testing.T, p isolate.Policy, c isolate.Cmd) isolate.Result {
	t.Helper()
	res, err := l.Run(t.Context(), p, c)
	if err != nil {
		t.Fatalf("run %q: %v", c.Args, err)
	}
	return res
}

// shell runs a line of sh and returns what it printed.
func (l *lab) shell(t *testing.T, p isolate.Policy, line string) string {
	t.Helper()
	res := l.run(t, p, isolate.Cmd{Args: []string{"/bin/sh", "-c", line}})
	if res.Reason != isolate.ReasonExit || len(res.Stderr.Kept) > 0 {
		t.Errorf("%s: %s %d %s: %s", line, res.Reason, res.ExitCode, res.Detail, res.Stderr.Kept)
	}
	return string(res.Stdout.Kept)
}

// script is the command that runs a script of testdata/escape inside.
func script(t *testing.T, name string, args ...string) isolate.Cmd {
	t.Helper()
	file := filepath.Join("testdata", "escape", name)
	at := "/workspace/" + name
	switch filepath.Ext(name) {
	case ".c":
		at = strings.TrimSuffix(at, ".c")
		return isolate.Cmd{Args: append([]string{at}, args...), In: []isolate.Input{{Source: compiled(t, file)}}}
	case ".py":
		testenv.Require(t, testenv.Python3)
		return isolate.Cmd{Args: append([]string{"/usr/bin/python3", at}, args...), In: []isolate.Input{{Source: file}}}
	}
	return isolate.Cmd{Args: append([]string{"/bin/sh", at}, args...), In: []isolate.Input{{Source: file}}}
}

// builds remembers the programs that were compiled in this run of the tests.
var builds sync.Map

// buildDir holds them; withOutside makes and removes it.
var buildDir string

// compiled compiles a C file, once, with the options that follow "cc:" in its
// first line, and returns the program's path.
func compiled(t *testing.T, file string, options ...string) string {
	t.Helper()
	testenv.Require(t, testenv.GCC, testenv.UserNS)
	key := file + " " + strings.Join(options, " ")
	build, _ := builds.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp(buildDir, "")
		if err != nil {
			return "", err
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", err
		}
		out := filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".c"))
		first, _, _ := strings.Cut(string(source), "\n")
		_, own, _ := strings.Cut(strings.TrimSuffix(first, "*/"), "cc:")
		args := append([]string{"-O1", "-pthread", "-o", out, file}, strings.Fields(own)...)
		if text, err := exec.Command("gcc", append(args, options...)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("gcc %s: %w\n%s", file, err, text)
		}
		return out, nil
	}))
	out, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tempDir is a temporary directory that the id of root's sandboxes may pass
// through, which t.TempDir is not.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "isolate-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write makes a file with its directories and returns its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// descendants are the processes that this one or a child of it started. Who
// loses its parent becomes our child, see withOutside.
func descendants() []string {
	parent, name := map[int]int{}, map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, err := os.ReadFile(s)
		if err != nil {
			continue // ended meanwhile
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(s)))
		end := bytes.LastIndexByte(b, ')')
		f := strings.Fields(string(b[end+1:]))
		parent[pid], _ = strconv.Atoi(f[1])
		name[pid] = string(b[:end+3])
	}
	var found []string
	for pid := range parent {
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == os.Getpid() {
				found = append(found, name[pid])
				break
			}
		}
	}
	return found
}

// cgroupsNamed are the cgroup directories of a run-time id, at and below the
// places where this process may have them made.
func cgroupsNamed(id string) []string {
	var found []string
	own, _ := os.ReadFile("/proc/self/cgroup")
	for _, line := range strings.Split(strings.TrimSpace(string(own)), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			for _, dir := range []string{f[2], filepath.Dir(f[2])} {
				hits, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", c, dir, "*"+id+"*"))
				found = append(found, hits...)
			}
		}
	}
	return found
}

// withOutside runs the tests with the listeners that nobody inside may reach.
func withOutside(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "isolate-hostile-build-"); err == nil {
		defer os.RemoveAll(buildDir)
		err = os.Chmod(buildDir, 0o755)
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	if err == nil {
		err = outside.listen()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the host:", err)
		return 1
	}
	defer outside.close()
	return m.Run()
}

// profiles are all system-call tables.
var profiles = []policy.Profile{policy.ProfileDefault, policy.ProfileCompat, policy.ProfileStrict}
