package limits_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
)

// A63, B44: the call returns when the main program ends, however its children
// were detached and although they hold its output; they are gone with it.
func TestLimitsLeavers(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, way := range []string{"child", "setsid", "twice"} {
		t.Run(way, func(t *testing.T) {
			begin := time.Now()
			res := l.run(isolate.Policy{Wall: patience}, hostile(t, "leaver.py", way))
			if took := time.Since(begin); took > patience/2 {
				t.Errorf("returned after %s", took)
			}
			ended(t, res, isolate.ReasonExit)
			if res.ExitCode != 5 {
				t.Errorf("exit code %d, want 5", res.ExitCode)
			}
			if !bytes.Contains(res.Stdout.Kept, []byte("main ends\n")) || res.Stdout.Total != int64(len(res.Stdout.Kept)) {
				t.Errorf("kept %d of %d bytes: %s", len(res.Stdout.Kept), res.Stdout.Total, describe(res))
			}
		})
	}
}

// A63: a shell that puts a program into the background and ends.
func TestLimitsBackgroundJob(t *testing.T) {
	l := newLab(t, isolate.Options{})
	begin := time.Now()
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c", "setsid sleep 50 & nohup sleep 50 & echo done"}})
	ended(t, res, isolate.ReasonExit)
	says(t, res, "done")
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("returned after %s", took)
	}
}

// A65: 1,000 zombies under a limit of 20 processes are all reaped, and neither
// the program nor we keep a descriptor for one.
func TestLimitsZombies(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	l.works()
	before := len(openFiles(t))
	const n = 1000
	res := l.run(isolate.Policy{PIDs: 20}, hostile(t, "zombies.py", fmt.Sprint(n)))
	ended(t, res, isolate.ReasonExit)
	says(t, res, fmt.Sprintf("%d started, 0 left, 3 descriptors", n))
	within(t, patience, func() error {
		// another seat may have been made; one descriptor a zombie would be 1,000
		if open := openFiles(t); len(open) > before+20 {
			return fmt.Errorf("%d descriptors, %d before: %q", len(open), before, open)
		}
		return nil
	})
}
