package isolate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

func within(t *testing.T, what string, true func() bool) {
	t.Helper()
	for began := time.Now(); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// TestStatsAndIdleCells: what a Runtime counts, and that a cell nobody uses
// goes and comes again.
func TestStatsAndIdleCells(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r, err := isolate.Open(t.Context(), isolate.Options{Spares: 1, CellIdle: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	run := func() {
		t.Helper()
		res, err := r.Run(t.Context(), policy.Policy{Allow: policy.Weakenings}, isolate.Cmd{Args: []string{"true"}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	run()
	within(t, "a spare", func() bool { s := r.Stats(); return s.Spares == 1 && s.Sandboxes == 0 })
	s := r.Stats()
	if s.Cells != 1 || s.Made != 1 || s.Ahead != 0 || s.Runs[isolate.ReasonExit] != 1 || s.MaxSandboxes != 64 {
		t.Errorf("after one run: %+v", s)
	}
	within(t, "the end of the idle cell", func() bool { s := r.Stats(); return s.Cells == 0 && s.Spares == 0 })
	run()
	if s := r.Stats(); s.Cells != 1 || s.Made != 2 || s.Runs[isolate.ReasonExit] != 2 || s.TearDownErrors != 0 {
		t.Errorf("after another run: %+v", s)
	}
}

// TestUsageOfEachProgram: what a program of a kept sandbox used is not told
// again as the next one's.
func TestUsageOfEachProgram(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	r := openWithoutSpares(t)
	s, err := r.Sandbox(t.Context(), policy.Policy{PIDs: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := func(script string) isolate.Result {
		t.Helper()
		res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := run("i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait")
	if res.Usage.CPU < 100*time.Millisecond || res.Usage.PIDsDenied == 0 {
		t.Fatalf("the first one used %+v", res.Usage)
	}
	first := res.Usage.CPU
	if res = run("exit 3"); res.Usage.CPU >= first || res.Usage.PIDsDenied != 0 || res.Reason != isolate.ReasonExit {
		t.Errorf("the second one used %+v, after one that used %s: %s", res.Usage, first, res.Reason)
	}
}

// TestUsageBeginsWithTheProgram: what making a sandbox and a process takes is not
// the program's. It was two thirds of what /bin/true was said to have used.
func TestUsageBeginsWithTheProgram(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	r := openWithoutSpares(t)
	least := time.Hour
	bare := time.Hour
	for range 20 { // others take turns on the caches
		res, err := r.Run(t.Context(), policy.Policy{}, isolate.Cmd{Args: []string{"/bin/true"}})
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, res.Usage.CPU)
		c := exec.Command("/bin/true")
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		bare = min(bare, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
	}
	if least <= 0 || least > 2*bare {
		t.Errorf("/bin/true used %s of processor time in a sandbox, %s outside", least, bare)
	}
}

// TestCloseEndsRuns: a kept sandbox that is closed ends what runs in it, and
// the run has a result.
func TestCloseEndsRuns(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := openWithoutSpares(t)
	s, err := r.Sandbox(t.Context(), policy.Policy{Allow: policy.Weakenings})
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	ended := make(chan isolate.Result, 1)
	go func() {
		res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"sleep", "600"}, Started: func(p isolate.Running) {
			if _, err := p.Usage(); err != nil {
				t.Error(err)
			}
			close(up)
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	<-up
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if res := <-ended; res.Reason != isolate.ReasonCancelled {
		t.Errorf("%+v", res)
	}
	if _, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"true"}}); err == nil {
		t.Error("a run in a closed sandbox")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestAbandoned: what nobody waits for is not copied out.
func TestAbandoned(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := openWithoutSpares(t)
	for _, cause := range []error{context.Canceled, fmt.Errorf("gone: %w", isolate.ErrAbandoned)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := filepath.Join(t.TempDir(), "out")
		res, err := r.Run(ctx, policy.Policy{Allow: policy.Weakenings}, isolate.Cmd{
			Args: []string{"sh", "-c", "echo x > f; echo up; sleep 600"}, Out: out,
			Stdout: writer(func() { cancel(cause) }),
		})
		if err != nil || res.Reason != isolate.ReasonCancelled {
			t.Fatalf("%+v, %v", res, err)
		}
		_, err = os.Stat(filepath.Join(out, "f"))
		if abandoned := errors.Is(cause, isolate.ErrAbandoned); abandoned != (err != nil) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

// writer is called for each write.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }
