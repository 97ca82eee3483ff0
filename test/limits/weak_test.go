package limits_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// powerless is what the role of a process without cgroup rights reports.
type powerless struct {
	OpenError   string
	Refusal     *plan.Refusal // of the policy without consent
	OtherError  string        // if it was refused otherwise
	After       []string      // what was there after the refusal
	Consented   isolate.Result
	Stdout      string
	Hog, Forker isolate.Result // a memory hog and a fork bomb under weak limits
	RunError    string
}

// runWithoutCgroups is that role.
func runWithoutCgroups() int {
	var p powerless
	p.run()
	if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p *powerless) run() {
	ctx := context.Background()
	dir := os.Getenv(dirVariable)
	r, err := isolate.Open(ctx, isolate.Options{Dir: dir})
	if err != nil {
		p.OpenError = err.Error()
		return
	}
	defer func() {
		if err := r.Close(); err != nil {
			p.RunError = err.Error()
		}
	}()
	c := isolate.Cmd{Args: []string{"sh", "-c", "echo $((6*7))"}}
	if _, err = r.Run(ctx, isolate.Policy{}, c); err != nil && !errors.As(err, &p.Refusal) {
		p.OtherError = err.Error()
	}
	p.After = descendants(os.Getpid())
	for _, root := range []string{"/root1", "/state"} {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+root))
		p.After = append(p.After, found...)
	}
	weak := isolate.Policy{Allow: []policy.Weakening{policy.WeakLimits}, Memory: 64 * policy.MiB, PIDs: somePIDs, Wall: 20 * time.Second}
	for _, x := range []struct {
		into *isolate.Result
		args []string
	}{
		{&p.Consented, c.Args},
		{&p.Hog, []string{"/usr/bin/python3", "-c", "x = bytearray(128 << 20)"}},
		{&p.Forker, []string{"sh", "-c", "for i in $(seq 100); do sleep 5 & done; echo all"}},
	} {
		if *x.into, err = r.Run(ctx, weak, isolate.Cmd{Args: x.args}); err != nil {
			p.RunError = err.Error()
			return
		}
	}
	p.Stdout = string(p.Consented.Stdout.Kept)
}

// A73, B76, C31, go-judge#151: without cgroup rights a run is refused, with
// the remedy, and nothing was made; with consent to weak-limits it runs and
// its result says so. What rlimits can limit is limited.
func TestLimitsWithoutCgroups(t *testing.T) {
	testenv.Require(t, testenv.Unprivileged, testenv.Python3)
	dir := filepath.Join(publicDir(t), "run")
	p := asPowerless(t, dir)
	if p.OpenError != "" || p.OtherError != "" || p.RunError != "" {
		t.Fatalf("open: %s; refusal: %s; run: %s", p.OpenError, p.OtherError, p.RunError)
	}
	if p.Refusal == nil || len(p.Refusal.Problems) != 1 {
		t.Fatalf("refused with %+v, want one problem", p.Refusal)
	}
	problem := p.Refusal.Problems[0]
	// what an administrator has to do depends on the version of cgroups and on
	// what the probes make of a cgroup that its owner cannot write to
	ways := []string{"enable-linger", "Delegate=", "isolate doctor"}
	if !strings.Contains(problem.Remedy, "--allow weak-limits") ||
		!slices.ContainsFunc(ways, func(w string) bool { return strings.Contains(problem.Remedy, w) }) {
		t.Errorf("the remedy %q names no way to get cgroups, or not the consent", problem.Remedy)
	}
	if !strings.Contains(problem.Rule, "memory") || !strings.Contains(problem.Rule, "pids") {
		t.Errorf("the rule %q does not name memory and pids", problem.Rule)
	}
	if len(p.After) > 0 {
		t.Errorf("after the refusal there were %q", p.After)
	}
	res := p.Consented
	if res.Reason != isolate.ReasonExit || p.Stdout != "42\n" || res.Limits != "rlimits" ||
		!slices.Equal(res.Weakenings, []policy.Weakening{policy.WeakLimits}) {
		t.Errorf("with consent it printed %q under %q with weakenings %q, reason %s", p.Stdout, res.Limits, res.Weakenings, res.Reason)
	}
	if p.Hog.ExitCode != 1 { // MemoryError
		t.Errorf("the memory hog ended with %d, want 1", p.Hog.ExitCode)
	}
	if p.Forker.ExitCode != 2 { // "Cannot fork"
		t.Errorf("the fork bomb ended with %d, want 2", p.Forker.ExitCode)
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left in the run-time directory: %q", left)
	}
}

// asPowerless runs the role in cgroups that belong to the user but cannot be
// written to.
func asPowerless(t *testing.T, dir string) (p powerless) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	// without the way to the user's systemd, which could give it a cgroup; an
	// unset variable would have it look where the directory usually is
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "XDG_RUNTIME_DIR=") || strings.HasPrefix(v, "DBUS_SESSION_BUS_ADDRESS=")
	})
	c.Env = append(c.Env, roleVariable+"=powerless", dirVariable+"="+dir, "XDG_RUNTIME_DIR="+filepath.Join(dir, "none"))
	c.Stderr = os.Stderr
	// It waits for a line, so that it is moved before it looks where it is.
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", "read moved; exec /proc/$1/exe", "sh", strconv.Itoa(os.Getpid())}
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	imprison(t, c.Process.Pid)
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("the powerless process: %v", err)
	}
	if err := json.Unmarshal([]byte(out.String()), &p); err != nil {
		t.Fatalf("the powerless process said %q: %v", out.String(), err)
	}
	return p
}

// imprison moves a process into a cgroup of ours, two levels deep, and makes
// both levels read-only. Where we have no cgroup ourselves, nothing is to do.
func imprison(t *testing.T, pid int) {
	t.Helper()
	for _, own := range ownCgroups(t) {
		outer := filepath.Join(own, "isolate-limits-prison-"+strconv.Itoa(pid))
		if err := os.Mkdir(outer, 0o755); err != nil {
			continue // no right here
		}
		inner := filepath.Join(outer, "inner")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = os.Chmod(outer, 0o755)
			if err := errors.Join(unix.Rmdir(inner), unix.Rmdir(outer)); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{inner, outer} {
			if err := errors.Join(os.Chmod(filepath.Join(d, "cgroup.procs"), 0o444), os.Chmod(d, 0o555)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ownCgroups are the directories of this process's cgroups.
func ownCgroups(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		names := []string{""} // the unified hierarchy
		if part[1] != "" {
			names = strings.Split(part[1], ",")
		}
		for _, name := range names {
			dir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(name, "name="), part[2])
			if st, err := os.Stat(dir); err == nil && st.IsDir() && !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
	}
	return out
}
