package limits_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// somePIDs is a cap that is met quickly.
const somePIDs = 40

// A55, B37: every way to start more and more ends at the cap with EAGAIN.
func TestLimitsForkBombs(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, bomb := range []struct {
		file string
		args []string
		says string // part of what it says at the cap
	}{
		{"forks.py", []string{"once"}, "EAGAIN"},
		{"forks.sh", nil, "Cannot fork"},
		{"chain.sh", nil, "Cannot fork"},
		{"threads.py", nil, "can't start new thread"},
		{"threads.c", nil, "EAGAIN"},
	} {
		t.Run(bomb.file, func(t *testing.T) {
			c := hostile(t, bomb.file, bomb.args...) // skips, so it comes before the watch
			host := watchHost(t)
			res := l.run(isolate.Policy{PIDs: somePIDs, Wall: patience}, c)
			host.responsive(t)
			ended(t, res, isolate.ReasonPIDs)
			if res.Usage.PIDsDenied == 0 {
				t.Error("no refused fork was counted")
			}
			if said := string(res.Stdout.Kept) + string(res.Stderr.Kept); !strings.Contains(said, bomb.says) {
				t.Errorf("said %q, want %q in it", shortened([]byte(said)), bomb.says)
			}
		})
	}
}

// A55: the cap is the number that was asked for, counted in processes and
// threads alike.
func TestLimitsProcessCapIsExact(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{PIDs: somePIDs}, hostile(t, "threads.py"))
	var threads int
	if _, err := fmt.Sscan(string(res.Stdout.Kept), &threads); err != nil || threads != somePIDs-1 {
		t.Errorf("had %d threads beside the main one, want %d: %s", threads, somePIDs-1, describe(res))
	}
}

// B37: a bomb that goes on until its deadline dies with all its processes
// soon after it, and the host stays responsive all the while.
func TestLimitsForkBombUntilDeadline(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, file := range []string{"forks.py", "forks.c"} {
		t.Run(file, func(t *testing.T) {
			c := hostile(t, file)
			wall := 2*time.Second + 10*l.pace(t) // time to meet the cap on an emulated machine
			host := watchHost(t)
			begin := time.Now()
			res := l.run(isolate.Policy{PIDs: somePIDs, Wall: wall}, c)
			took := time.Since(begin)
			late := host.responsive(t)
			ended(t, res, isolate.ReasonPIDs)
			says(t, res, "EAGAIN")
			if took > wall+10*time.Second+late {
				t.Errorf("gone after %s, want %s and 10 s at most (the host was %s late)", took, wall, late)
			}
		})
	}
}

// pace is how long a small Python program takes here.
func (l *lab) pace(t testing.TB) time.Duration {
	t.Helper()
	testenv.Require(t, testenv.Python3)
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"/usr/bin/python3", "-c", "pass"}})
	return res.Usage.Wall
}

// hostWatch starts small programs on the host, one after the other, and
// remembers how much longer than usual the slowest took.
type hostWatch struct {
	stop chan struct{}
	done chan time.Duration
}

func watchHost(t testing.TB) *hostWatch {
	t.Helper()
	w := &hostWatch{make(chan struct{}), make(chan time.Duration, 1)}
	go func() {
		var worst time.Duration
		for {
			begin := time.Now()
			if err := exec.Command("true").Run(); err != nil {
				t.Errorf("the host cannot start a program: %v", err)
			}
			worst = max(worst, time.Since(begin))
			select {
			case <-w.stop:
				w.done <- worst
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return w
}

// responsive ends the watch. Starting a program may become slow while others
// compete for the processors, but must not take seconds.
func (w *hostWatch) responsive(t testing.TB) (worst time.Duration) {
	t.Helper()
	close(w.stop)
	worst = <-w.done
	if worst > 10*time.Second {
		t.Errorf("starting a program on the host took %s", worst)
	}
	return worst
}
