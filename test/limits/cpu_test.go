package limits_test

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// B46: a share of 0.5 processors holds within 10 %, for one hog and for more
// than there are processors, however nice they are and wherever they want to
// run.
func TestLimitsCPUShare(t *testing.T) {
	testenv.Require(t, testenv.CPU)
	l := newLab(t, isolate.Options{})
	const share = 0.5
	// The sandbox's own start counts, too, but comes before the wall clock.
	start := l.run(isolate.Policy{CPUs: share}, isolate.Cmd{Args: []string{"true"}}).Usage.CPU
	for _, way := range []string{"one", "many", "nice", "affinity"} {
		t.Run(way, func(t *testing.T) {
			// What others leave on this machine may be less than the share, and
			// comes in bursts: a share that is never given is never had.
			for range 3 {
				plain := startSpinners(t)
				res := l.run(isolate.Policy{CPUs: share, Wall: 3 * time.Second}, hostile(t, "spin.py", way))
				possible := plain.stop(t)
				ended(t, res, isolate.ReasonWall)
				used := (res.Usage.CPU - start).Seconds() / res.Usage.Wall.Seconds()
				t.Logf("used %.3f processors of %.1f, when a plain program could use %.3f", used, share, possible)
				if used > share*1.1 {
					t.Fatal("used more than the share")
				}
				if used >= min(share, possible)*0.9 {
					return
				}
			}
			t.Error("got less than the share three times")
		})
	}
}

// spinners are plain programs on the host, one bound to each processor, that
// use all they get: a program in a sandbox can expect no more than they do.
type spinners struct {
	begin time.Time
	all   []*exec.Cmd
}

func startSpinners(t testing.TB) *spinners {
	t.Helper()
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	s := &spinners{begin: time.Now()}
	for cpu := 0; len(s.all) < mine.Count(); cpu++ {
		if !mine.IsSet(cpu) {
			continue
		}
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		s.all = append(s.all, c)
		var only unix.CPUSet
		only.Set(cpu)
		if err := unix.SchedSetaffinity(c.Process.Pid, &only); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// stop ends the spinners and returns the least that one got, in processors.
func (s *spinners) stop(t testing.TB) float64 {
	t.Helper()
	took := time.Since(s.begin).Seconds()
	least := 1.0
	for _, c := range s.all {
		_ = c.Process.Kill()
		_ = c.Wait()
		least = min(least, (c.ProcessState.UserTime()+c.ProcessState.SystemTime()).Seconds()/took)
	}
	return least
}
