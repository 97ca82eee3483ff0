package audit

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	victimDir = "ISOLATE_AUDIT_VICTIM"
	victimKey = "ISOLATE_AUDIT_VICTIM_KEY"
)

// victim opens runs and calls tools until it is killed. It says what it does
// on standard output: "accepted RUN N" when the record is durable, which is
// when a tool would run, "finished RUN N" when a later record is.
func victim(dir string) int {
	k, err := LoadKey(os.Getenv(victimKey))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	l, err := Open(dir, Options{Key: k})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				if err := victimRun(l); err != nil {
					fmt.Println("error", err)
					return
				}
			}
		})
	}
	all.Wait()
	return 1
}

func victimRun(l *Log) error {
	r, err := l.Run(RunStart{Plan: "sha256:00"})
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	errs := make(chan error, 6)
	for n := range int64(6) {
		calls.Go(func() {
			if err := r.Append(CallAccepted{Call: n, Tool: "t"}); err != nil {
				errs <- err
				return
			}
			fmt.Println("accepted", r.ID(), n)
			time.Sleep(time.Millisecond) // the tool
			err := r.AppendLater(func(err error) { fmt.Println("error", err) }, CallFinished{Call: n, Tool: "t", Decision: "done"})
			if err == nil {
				err = r.Append(Approval{Call: n, Tool: "t", Verdict: "allow"})
			}
			if err != nil {
				errs <- err
				return
			}
			fmt.Println("finished", r.ID(), n)
		})
	}
	calls.Wait()
	close(errs)
	if err := errors.Join(<-errs); err != nil {
		return err
	}
	if _, err = r.Close(RunEnd{Reason: "exit"}); err == nil {
		fmt.Println("ended", r.ID(), 0)
	}
	return err
}

// The process that writes is killed at random points. Whatever it said was
// durable is in the log, the next process goes on, everything verifies, and the
// calls without an end are shown.
func TestKilledAtRandomPoints(t *testing.T) {
	p := newPlace(t)
	keyDir := filepath.Join(t.TempDir(), "key")
	k, err := LoadKey(keyDir)
	must(t, err)
	p.key = k
	rounds := 20
	if os.Getenv(soak) != "" {
		rounds = 200
	}
	said := map[string]bool{}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range rounds {
		killOne(t, p.dir, keyDir, time.Duration(random.IntN(12000))*time.Microsecond, said)
	}
	for patience := 12 * time.Millisecond; len(said) == 0; patience *= 2 { // a slow machine has come nowhere
		killOne(t, p.dir, keyDir, patience, said)
	}
	l := p.open(t, Options{})
	must(t, l.Close())
	report := p.verify(t, VerifyOptions{}, "")

	states := map[string]string{}
	unfinished := map[string]bool{}
	recovered := 0
	for _, s := range report.Runs {
		states[s.ID] = s.State
		for _, c := range s.Unfinished {
			unfinished[fmt.Sprintf("%s %d", s.ID, c.Call)] = true
		}
		if s.State == StateRecovered {
			recovered++
		}
	}
	if recovered == 0 || rounds >= 200 && len(unfinished) == 0 {
		t.Errorf("%d runs were recovered, %d calls are unfinished: nobody was killed at work", recovered, len(unfinished))
	}
	for line := range said {
		f := strings.Fields(line)
		call := f[1] + " " + f[2]
		switch {
		case states[f[1]] == "":
			t.Errorf("%q was said, and there is no run", line)
		case f[0] == "finished" && unfinished[call]:
			t.Errorf("%q was said, and the log has no end of the call", line)
		case f[0] == "ended" && states[f[1]] != StateEnded:
			t.Errorf("%q was said, and the run is %s", line, states[f[1]])
		}
	}
	checkAccepted(t, p, said)
	t.Logf("%d runs, %d recovered, %d calls unfinished, %d things said", len(report.Runs), recovered, len(unfinished), len(said))
}

// checkAccepted looks for the record of every call that was said to be accepted.
func checkAccepted(t *testing.T, p place, said map[string]bool) {
	runs, err := Runs(p.dir)
	must(t, err)
	have := map[string]bool{}
	for _, id := range runs {
		must(t, Records(p.dir, id, func(r Record) error {
			if e, err := r.Decode(); err != nil {
				return err
			} else if e, ok := e.(CallAccepted); ok {
				have[fmt.Sprintf("accepted %s %d", id, e.Call)] = true
			}
			return nil
		}))
	}
	for line := range said {
		if strings.HasPrefix(line, "accepted") && !have[line] {
			t.Errorf("%q was said, and the log does not have it", line)
		}
	}
}

func killOne(t *testing.T, dir, keyDir string, after time.Duration, said map[string]bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimKey+"="+keyDir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "error"):
			t.Errorf("the process could not go on: %s", line)
		case line == "ready":
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		case len(strings.Fields(line)) == 3: // the last may be cut
			said[line] = true
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Recovery and living processes do not get in each other's way: no run gets two
// seals, whatever is opened and closed at the same time.
func TestOpenWhileOthersWork(t *testing.T) {
	p := newPlace(t)
	must(t, p.open(t, Options{}).Close())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 15 {
				l, err := Open(p.dir, Options{Key: p.key})
				if err != nil {
					t.Error(err)
					return
				}
				r, err := l.Run(RunStart{Plan: "sha256:00"})
				if err == nil {
					_, err = r.Close(RunEnd{Reason: "exit"})
				}
				if err = errors.Join(err, l.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, s := range p.verify(t, VerifyOptions{}, "").Runs {
		if s.State != StateEnded {
			t.Errorf("%+v", s)
		}
	}
}
