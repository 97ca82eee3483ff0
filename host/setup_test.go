package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSetup has the script for a machine with several things to mend.
func TestSetup(t *testing.T) {
	for _, name := range []string{"ready", "ubuntu-apparmor", "userns-max-0", "no-controllers", "hybrid", "everything-missing"} {
		o, _ := loadState(t, name)
		o.Program, o.Caller = "/usr/local/bin/isolate", 4711
		golden(t, name+".setup", Probe(t.Context(), o).Setup())
	}
}

// TestSetupIsShell reads every command as a shell does, with a name that a
// shell would take apart.
func TestSetupIsShell(t *testing.T) {
	for f := range commands {
		s := sight{o: Options{UID: 1000, Program: "/usr/local/bin/isolate"}, user: "a'; touch /x #"}
		c := exec.Command("sh", "-n")
		c.Stdin = strings.NewReader(s.commandsFor(f))
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", f.what, err, out)
		}
		if text := s.commandsFor(f); strings.Contains(text, "a'; touch") || strings.Contains(text, "{user}") {
			t.Errorf("%s: the name is not quoted: %s", f.what, text)
		}
	}
}

// Who owns a group can end what is in it. By the time an administrator runs the
// script, the number of the shell may be another process's.
func TestSetupMovesTheUsersShellOnly(t *testing.T) {
	self, stranger := os.Geteuid(), 1 // whose process is root's
	if self == 0 {
		self, stranger = 65534, os.Getpid()
	}
	for _, c := range []struct {
		user, pid int
		want      string
	}{
		{os.Geteuid(), os.Getpid(), strconv.Itoa(os.Getpid()) + "\n"},
		{self, stranger, ""},
		{self, 1 << 30, ""}, // gone
	} {
		dir := t.TempDir()
		group := filepath.Join(dir, "isolate")
		if err := os.Mkdir(group, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
			if err := os.WriteFile(filepath.Join(group, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := sight{o: Options{Caller: c.pid}, user: strconv.Itoa(c.user)}
		script := "set -e\n" + strings.ReplaceAll(s.commandsFor(&controllerUnowned), "/sys/fs/cgroup", dir)
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("user %d, process %d: %v: %s", c.user, c.pid, err, out)
		}
		if got, err := os.ReadFile(filepath.Join(group, "cgroup.procs")); err != nil || string(got) != c.want {
			t.Errorf("user %d, process %d: moved %q, %v, want %q", c.user, c.pid, got, err, c.want)
		}
	}
}

func TestSetupWritesNoProfileForStrangePaths(t *testing.T) {
	for _, program := range []string{"", "isolate", "/home/a b/isolate", "/srv/{a,b}/isolate", "/x*", "/memfd:isolate (deleted)", "/a\nEOF"} {
		s := sight{o: Options{UID: 1000, Program: program}}
		if got := s.commandsFor(&usernsApparmorOn); got != "" {
			t.Errorf("%q: %s", program, got)
		}
	}
}
