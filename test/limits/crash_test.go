package limits_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// dirVariable tells the supervisor role its run-time directory.
const dirVariable = "ISOLATE_LIMITS_DIR"

// supervise is the role of a process that uses the library until it is killed.
// It says when it begins, so that the time of the kill counts from there.
func supervise() int {
	fmt.Println("begins")
	r, err := isolate.Open(context.Background(), isolate.Options{Dir: os.Getenv(dirVariable)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// what a program leaves in every writable place, in its own processes and
	// in sessions that nobody watches
	script := "echo x | tee /workspace/x /tmp/x /dev/shm/x $HOME/x; setsid sleep 60 & sleep 60 & sleep 0.01"
	for {
		if _, err := r.Run(context.Background(), isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c", script}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// A66, B11, C37, bubblewrap#633, codex#31599: a supervisor killed at 20 random
// points of start and run leaves no program, and the next Open and Close in the
// same run-time directory leave no process, cgroup or file of it.
func TestLimitsSupervisorKilled(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	warm(t)
	kills := 20
	if soak() {
		kills = 500
	}
	dir := filepath.Join(publicDir(t), "run")
	for i := range kills {
		// one in each part of the range: its end is well into running
		delay := time.Duration(float64(150*time.Millisecond) * (float64(i) + rand.Float64()) / float64(kills))
		t.Run(delay.String(), func(t *testing.T) {
			killSupervisor(t, dir, delay)
			ids := entries(t, dir)
			begin := time.Now()
			r, err := isolate.Open(context.Background(), isolate.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, entries(t, dir)...)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 25*time.Second {
				t.Errorf("cleaning up took %s", took)
			}
			gone(t)
			for _, left := range remains(dir, ids) {
				t.Errorf("left after the next start: %s", left)
			}
			if t.Failed() {
				out, _ := exec.Command("sh", "-c", "ls -lR $0; cat $0/*/cgroups", dir).CombinedOutput()
				t.Logf("%s", out)
			}
		})
	}
	l := newLabIn(t, isolate.Options{}, filepath.Dir(dir))
	l.works()
}

// killSupervisor starts a supervisor and kills it after a delay. Everything
// that it has started must die with it.
func killSupervisor(t *testing.T, dir string, delay time.Duration) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), roleVariable+"=supervisor", dirVariable+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	time.Sleep(delay)
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil || c.ProcessState.Exited() {
		t.Fatalf("the supervisor ended by itself: %v", c.ProcessState)
	}
	gone(t)
}

// gone checks that no process below ours lives on.
func gone(t *testing.T) {
	t.Helper()
	within(t, 20*time.Second, func() error {
		reapOrphans()
		if alive := descendants(os.Getpid()); len(alive) > 0 {
			return fmt.Errorf("after 20 s there are still %q", alive)
		}
		return nil
	})
}

// C37: a directory that a killed process had just made, and one that it had
// half removed, are removed, too; what is not isolate's is left alone.
func TestLimitsHalfMadeDirectories(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	dir := filepath.Join(publicDir(t), "run")
	for _, d := range []string{"", "isolate-0123456789ab", "isolate-0123456789ac/root1/proc", "isolate-0123456789ad"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"isolate-0123456789ad/lock":    "",
		"isolate-0123456789ad/cgroups": "/sys/fs/cgroup/../../etc\n/\n/sys/fs/cgroup/isolate-of-somebody\n",
		"of-somebody":                  "mine",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := isolate.Open(context.Background(), isolate.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left := entries(t, dir); len(left) != 1 || left[0] != "of-somebody" {
		t.Errorf("left after the next start: %q, want what is somebody's", left)
	}
}

// C37: what a running process uses is not taken for a left-over.
func TestLimitsTwoRuntimesInOneDirectory(t *testing.T) {
	a := newLab(t, isolate.Options{})
	b := newLabIn(t, isolate.Options{}, filepath.Dir(a.dir))
	b.ids = nil // a's are among them, and a is open
	a.works()
	b.works()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	b.closed = true
	a.works()
}
