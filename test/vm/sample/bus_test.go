package sample_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate/internal/testenv"
)

func TestUserBusIsThere(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser)
	bus := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus")
	if info, err := os.Stat(bus); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("%s is not a socket: %v", bus, err)
	}
}

// A child is moved, its starter is not; what the starter may do from outside is
// what the files' owner may, except for bringing processes in.
func TestScopeOfAChild(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	before, err := unifiedCgroup(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := waiter(t)
	dir := scope(t, pid)
	if now, _ := unifiedCgroup(os.Getpid()); now != before {
		t.Errorf("the caller moved from %s to %s", before, now)
	}
	if unit, err := delegatedUnit(t.Context(), pid); unit != dir {
		t.Errorf("the child's delegated unit is %q, %v; want %s", unit, err, dir)
	}
	if available := read(dir, "cgroup.controllers"); !strings.Contains(available, "memory") || !strings.Contains(available, "pids") {
		t.Errorf("controllers are %q, want memory and pids among them", available)
	}
	if err := put(dir, "cgroup.subtree_control", "+memory +pids"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("enabling controllers above a process: %v, want EBUSY", err)
	}

	leaf := filepath.Join(dir, "leaf")
	if err := os.Mkdir(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := put(leaf, "cgroup.procs", fmt.Sprint(pid)); err != nil {
		t.Errorf("moving the child within its scope: %v", err)
	}
	if err := put(dir, "cgroup.subtree_control", "+memory +pids +cpu"); err != nil {
		t.Errorf("enabling controllers: %v", err)
	}
	if err := put(leaf, "memory.max", "268435456"); err != nil {
		t.Errorf("limiting from outside: %v", err)
	}
	t.Run("from outside", func(t *testing.T) { bringIn(t, leaf, before) })
	if err := put(leaf, "cgroup.kill", "1"); err != nil {
		t.Errorf("killing from outside: %v", err)
	}
}

// bringIn tries to get processes into a group from a cgroup whose common
// ancestor with it belongs to root: refused by both ways. It must run before
// the tests of cgroup_test.go, which may move this process.
func bringIn(t *testing.T, group, own string) {
	if strings.Contains(own, "/user@") {
		t.Skipf("needs a caller outside of the user manager: this one is in %s", own)
	}
	if err := put(group, "cgroup.procs", fmt.Sprint(os.Getpid())); !errors.Is(err, syscall.EACCES) {
		t.Errorf("moving in from outside: %v, want EACCES", err)
	}
	if err := runIn(t, group, exec.Command("true")); !errors.Is(err, syscall.EACCES) {
		t.Errorf("cloning in from outside: %v, want EACCES", err)
	}
}

func TestScopeOfMyself(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	name := unitName()
	out, err := child(t, "self", name).CombinedOutput()
	if err != nil || !strings.Contains(string(out), name+" <nil>") {
		t.Errorf("got %q, %v; want a directory named %s", out, err, name)
	}
}

// Without a session bus the manager's own socket does.
func TestScopeWithoutBus(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "absent"))
	pid, _ := waiter(t)
	scope(t, pid)
}

func TestScopeEndsWithItsProcesses(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	pid, end := waiter(t)
	dir := scope(t, pid)
	// A cgroup made below does not keep the scope.
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	end()
	deadline := time.Now().Add(patience)
	for {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestScopeRefusals(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	pid, _ := waiter(t)
	taken := filepath.Base(scope(t, pid))
	gone, end := waiter(t)
	end()
	for what, try := range map[string]struct {
		name string
		pid  int
	}{
		"a name that is taken":      {taken, os.Getpid()},
		"a name that is no scope":   {"isolate", os.Getpid()},
		"a process that is gone":    {unitName(), gone},
		"a process of someone else": {unitName(), foreign(t)},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		dir, err := delegatedScope(ctx, try.name, try.pid)
		t.Logf("%s: %v", what, err)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %q, %v; want a refusal", what, dir, err)
		}
	}
}

// A service of the user manager without Delegate= can write to its cgroup, and
// yet systemd may undo what it does there: it must not pass for delegated.
func TestPlainServiceIsNotDelegated(t *testing.T) {
	testenv.Require(t, testenv.SystemdUser, testenv.Cgroup2)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{"": "not delegated", "Delegate=yes": "delegated"} {
		args := []string{"--user", "--wait", "--pipe", "--quiet", "--collect", "--setenv=" + roleVariable + "=where"}
		if options != "" {
			args = append(args, "-p", options)
		}
		out, err := exec.CommandContext(t.Context(), "systemd-run", append(args, exe)...).CombinedOutput()
		t.Logf("%q: %s", options, out)
		if err != nil || !strings.HasPrefix(string(out), want+", writable") {
			t.Errorf("with %q: got %q, %v; want %s, writable", options, out, err, want)
		}
	}
}

// where prints what a process finds out about its own cgroup.
func where() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own, _ := unifiedCgroup(os.Getpid())
	verdict, writable := "not delegated", "not writable"
	dir, err := delegatedUnit(ctx, os.Getpid())
	if err == nil {
		verdict = "delegated"
	}
	below := filepath.Join(own, "below")
	if os.Mkdir(below, 0o755) == nil && put(below, "cgroup.procs", "0") == nil && put(own, "cgroup.subtree_control", "+memory") == nil {
		writable = "writable"
	}
	fmt.Printf("%s, %s: %q %v\n", verdict, writable, dir, err)
}

// foreign finds a process of root that is neither init nor the kernel's.
func foreign(t *testing.T) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, _ := strconv.Atoi(filepath.Base(dir)); err == nil && pid > 1 && len(line) > 0 && info.Sys().(*syscall.Stat_t).Uid == 0 {
			return pid
		}
	}
	t.Fatal("no process of root is to be seen")
	return 0
}

var units int

func unitName() string {
	units++
	return fmt.Sprintf("isolate-sample-%d-%d.scope", os.Getpid(), units)
}

// scope makes a scope for a process and prints how long that took.
func scope(t *testing.T, pid int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	dir, err := delegatedScope(ctx, unitName(), pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s after %v, controllers %s", dir, time.Since(start).Round(time.Millisecond), read(dir, "cgroup.controllers"))
	return dir
}

func read(dir, file string) string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.TrimSpace(string(b))
}
