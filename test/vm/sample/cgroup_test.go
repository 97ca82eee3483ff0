package sample_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMemoryLimitKills(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.Memory)
	group := newCgroup(t)
	set(t, group, "memory.max", "16777216")
	set(t, group, "memory.oom.group", "1")

	err := runIn(t, group, child(t, "hog"))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the hog ended with %v, want SIGKILL", err)
	}
	if kills := event(t, group, "memory.events", "oom_kill"); kills < 1 {
		t.Errorf("oom_kill is %d, want 1 or more", kills)
	}
}

// The same hog without the limit ends well: the kill above is the limit's.
func TestNoMemoryLimitNoKill(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.Memory)
	group := newCgroup(t)
	if err := runIn(t, group, child(t, "hog")); err != nil {
		t.Errorf("the hog ended with %v, want success", err)
	}
	if kills := event(t, group, "memory.events", "oom_kill"); kills != 0 {
		t.Errorf("oom_kill is %d, want 0", kills)
	}
}

func TestPIDsLimitRefuses(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.PIDs)
	group := newCgroup(t)
	set(t, group, "pids.max", "1")
	// A shell alone fits; the process it wants to start does not.
	if err := runIn(t, group, exec.Command("sh", "-c", "/bin/true & wait $!")); err == nil {
		t.Error("a second process started under pids.max 1")
	}
	if denied := event(t, group, "pids.events", "max"); denied < 1 {
		t.Errorf("pids.events max is %d, want 1 or more", denied)
	}
}

func TestCPULimitThrottles(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2, testenv.CPU)
	group := newCgroup(t)
	set(t, group, "cpu.max", "10000 100000")
	if err := runIn(t, group, child(t, "spin")); err != nil {
		t.Errorf("the spinning child ended with %v", err)
	}
	if n := event(t, group, "cpu.stat", "nr_throttled"); n < 1 {
		t.Errorf("nr_throttled is %d, want 1 or more", n)
	}
}

func TestCgroupKillEndsAll(t *testing.T) {
	testenv.Require(t, testenv.Cgroup2)
	group := newCgroup(t)
	c := child(t, "wait")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	time.AfterFunc(500*time.Millisecond, func() {
		os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0)
	})
	if err := runIn(t, group, c); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the child ended with %v, want killed", err)
	}
}

// home is the directory whose children have controllers, made once: finding it
// may move this process.
var home = sync.OnceValues(findHome)

// findHome takes, in this order: the parent, when there is no systemd and
// somebody delegated it and put us in a leaf; the unit we are in, when the user
// manager says that it is delegated; else a scope of our own. Writable is no
// proof under systemd: every cgroup below the user manager belongs to the user,
// delegated or not.
func findHome() (string, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		own, err := unifiedCgroup(os.Getpid())
		return filepath.Dir(own), err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dir, err := delegatedUnit(ctx, os.Getpid())
	if err != nil {
		dir, err = delegatedScope(ctx, fmt.Sprintf("isolate-sample-%d.scope", os.Getpid()), os.Getpid())
	}
	if err != nil {
		return "", err
	}
	leaf := filepath.Join(dir, "leaf")
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return "", err
	}
	if err := put(leaf, "cgroup.procs", "0"); err != nil {
		return "", err
	}
	return dir, put(dir, "cgroup.subtree_control", "+memory +pids +cpu")
}

// newCgroup makes a cgroup for one test.
func newCgroup(t *testing.T) string {
	t.Helper()
	parent, err := home()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("below %s", parent)
	dir, err := os.MkdirTemp(parent, "sample-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// runIn runs a command cloned into a cgroup.
func runIn(t *testing.T, group string, c *exec.Cmd) error {
	t.Helper()
	fd, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(fd.Fd())}
	return c.Run()
}

// set writes a limit and reads it back: some files accept what they ignore.
func set(t *testing.T, group, file, value string) {
	t.Helper()
	if err := put(group, file, value); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(group, file))
	if err != nil || strings.TrimSpace(string(b)) != value {
		t.Fatalf("%s is %q, %v; want %q", file, b, err, value)
	}
}

func put(group, file, value string) error {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// event reads one counter of a flat keyed file.
func event(t *testing.T, group, file, key string) (n int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		t.Fatal(err)
	}
	word := strings.Fields(string(b))
	i := slices.Index(word, key)
	if i < 0 || i+1 == len(word) {
		t.Fatalf("%s has no %s: %q", file, key, b)
	}
	if _, err := fmt.Sscan(word[i+1], &n); err != nil {
		t.Fatal(err)
	}
	return n
}
