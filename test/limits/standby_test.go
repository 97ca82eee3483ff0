package limits_test

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
)

// standbys are the processes at the fourth step below us: keeper, seat, init,
// and what the init has forked.
func standbys() (pids []int) {
	depth := map[int]int{os.Getpid(): 0}
	for _, p := range below(os.Getpid()) {
		if depth[p.pid] = depth[p.parent] + 1; depth[p.pid] == 4 {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// The process that waits in a sandbox made ahead has everything of a program
// but its descriptors, is the program of the next run, and if it has ended before
// that, the run gets another sandbox.
func TestStandby(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: 1})
	if err := l.Prepare(t.Context(), isolate.Policy{}); err != nil {
		t.Fatal(err)
	}
	waiting := standbys()
	if len(waiting) != 1 {
		t.Fatalf("%d processes wait in the sandbox that is made ahead, want one: %q", len(waiting), descendants(os.Getpid()))
	}
	name := strconv.Itoa(waiting[0])
	status, err := os.ReadFile("/proc/" + name + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want+"\n") {
			t.Errorf("it has not %q:\n%s", want, status)
		}
	}
	if score, err := os.ReadFile("/proc/" + name + "/oom_score_adj"); err != nil || string(score) != "1000\n" {
		t.Errorf("its oom_score_adj is %q, %v", score, err)
	}
	looked, end := io.Pipe() // the program is not to end before we looked
	l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"cat"}, Stdin: looked, Started: func(isolate.Running) {
		defer end.Close()
		if s, err := os.ReadFile("/proc/" + name + "/stat"); err != nil || strings.Contains(string(s), "(keeper)") {
			t.Errorf("it is not the program: %q, %v", s, err)
		}
	}})
	within(t, patience, func() error {
		if waiting = standbys(); len(waiting) == 1 && l.Stats().Spares == 1 {
			return nil
		}
		return fmt.Errorf("%d standbys are there", len(waiting))
	})
	if t.Failed() {
		return
	}
	kill(t, waiting[0])
	l.works()
}

// In a kept sandbox nothing waits: the programs in it are of the same user.
func TestNoStandbyAmongPrograms(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	s, err := l.Sandbox(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if waiting := standbys(); len(waiting) != 0 {
		t.Errorf("%d processes wait in a kept sandbox: %q", len(waiting), descendants(os.Getpid()))
	}
	res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"sh", "-c", "echo /proc/[0-9]*"}})
	if err != nil || string(res.Stdout.Kept) != "/proc/1 /proc/2\n" {
		t.Errorf("a program sees the processes %q, %v; want the init and itself", res.Stdout.Kept, err)
	}
}
