package host

import (
	"os/exec"
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

func TestSetupWritesNoProfileForStrangePaths(t *testing.T) {
	for _, program := range []string{"", "isolate", "/home/a b/isolate", "/srv/{a,b}/isolate", "/x*", "/memfd:isolate (deleted)", "/a\nEOF"} {
		s := sight{o: Options{UID: 1000, Program: program}}
		if got := s.commandsFor(&usernsApparmorOn); got != "" {
			t.Errorf("%q: %s", program, got)
		}
	}
}
