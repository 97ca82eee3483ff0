// Package stranger_test is somebody who has just installed isolate on a machine
// that is not prepared for it: it asks isolate doctor, is refused by isolate
// exec, has root run what isolate doctor --print-setup prints, and tries again.
//
// It changes settings of the whole machine, so it runs in the guest of test/vm
// only, in mode root, with Linux 5.10 or newer.
package stranger_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/internal/testenv"
)

// installed is where isolate is put: a path that only root can write to.
const installed = "/usr/local/bin/isolate"

// user is who has installed it, as test/vm/image/customize made them.
const user = "tester"

// login is a way in which the user comes to a shell, as the command line that
// runs a script as them.
type login []string

// The ways in.
var (
	// session is what sshd or a console gives: PAM opens a systemd session.
	session = login{"runuser", "--login", user, "-c"}
	// switched is su in a session of root's: systemd opens no second one.
	switched = login{"runuser", "--login", "root", "-c", `exec su - ` + user + ` -c "$1"`, "sh"}
	// service has no session at all, as in a job of cron.
	service = login{"setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env", "sh", "-c"}
)

// install makes isolate a program of the machine, once.
func install(t *testing.T) {
	t.Helper()
	testenv.Require(t, testenv.VM, testenv.Root)
	if _, err := os.Stat(installed); err == nil {
		return
	}
	b, err := os.ReadFile(os.Getenv("ISOLATE_BIN"))
	if err == nil {
		err = os.WriteFile(installed, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answer is what a command of isolate said and ended with.
type answer struct {
	out, err string
	code     int
}

// isolate runs isolate with arguments a shell takes as they are.
func (l login) isolate(t *testing.T, args string) answer {
	t.Helper()
	c := exec.Command(l[0], append(l[1:], installed+" "+args)...)
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return answer{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// check is what isolate doctor says of one check.
type check struct {
	ID, Status, Evidence, Remedy string
}

// report is what isolate doctor says.
type report struct {
	Verdict string
	Checks  []check
}

func (l login) report(t *testing.T) (r report) {
	t.Helper()
	a := l.isolate(t, "doctor --json")
	if err := json.Unmarshal([]byte(a.out), &r); err != nil {
		t.Fatalf("doctor: %v: %+v", err, a)
	}
	return r
}

// complaints are the checks that warn or fail, a line each.
func (l login) complaints(t *testing.T) string {
	t.Helper()
	var lines []string
	for _, c := range l.report(t).Checks {
		if c.Status == "warn" || c.Status == "fail" {
			lines = append(lines, c.Status+" "+c.ID+": "+c.Evidence)
		}
	}
	return strings.Join(lines, "\n")
}

// doctor asks isolate doctor for a check, and for its verdict.
func (l login) doctor(t *testing.T, id string) (check, string) {
	t.Helper()
	report := l.report(t)
	for _, c := range report.Checks {
		if c.ID == id {
			return c, report.Verdict
		}
	}
	t.Fatalf("doctor has no check %s", id)
	return check{}, ""
}

// runs fails the test unless a program runs with every limit.
func (l login) runs(t *testing.T) {
	t.Helper()
	if a := l.isolate(t, "exec -- echo hello"); a.code != 0 || a.out != "hello\n" {
		t.Errorf("isolate exec ended with %d and said %q and %q", a.code, a.out, a.err)
		t.Logf("not in order:\n%s", l.complaints(t))
	}
}

// isRefused fails the test unless isolate exec refuses, naming the remedy.
func (l login) isRefused(t *testing.T, remedy string) {
	t.Helper()
	if a := l.isolate(t, "exec -- echo hello"); a.code != 125 || a.out != "" || !strings.Contains(flat(a.err), flat(remedy)) {
		t.Errorf("isolate exec ended with %d and said %q and %q, want 125 and %q", a.code, a.out, a.err, remedy)
	}
}

// flat is text without the line breaks a terminal would need.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// setUp has root run what isolate doctor prints.
func (l login) setUp(t *testing.T) {
	t.Helper()
	script := l.isolate(t, "doctor --print-setup").out
	c := exec.Command("sh")
	c.Stdin = strings.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("root cannot run it: %v: %s\n%s", err, out, script)
	}
}

// sysctl sets a setting until the test ends; it skips on a kernel without it.
func sysctl(t *testing.T, name, value string) {
	t.Helper()
	file := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
	was, err := os.ReadFile(file)
	if err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
	if err := os.WriteFile(file, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, was, 0); err != nil {
			t.Error(err)
		}
	})
}

// root runs a command of the administrator's.
func root(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("cannot %s: %w: %s", strings.Join(args, " "), err, out))
	}
}
