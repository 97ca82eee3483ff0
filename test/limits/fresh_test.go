package limits_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// freshRuns is how often a fresh binary is run.
const freshRuns = 100

// A70, go-judge 4ef8811: a binary that was copied in is run at once, again and
// again, while this process forks all the time: a child that has not executed
// yet holds copies of our descriptors, and one open for writing makes the
// program busy (ETXTBSY).
func TestFreshCopyIsNotBusy(t *testing.T) {
	l := newLab(t, isolate.Options{})
	program := compiled(t, "hello.c")
	stop := load(t)
	defer stop()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range freshRuns / 2 {
				res, err := l.tryRun(isolate.Policy{}, isolate.Cmd{Args: []string{"./hello"}, In: []isolate.Input{{Source: program}}})
				if err != nil || string(res.Stdout.Kept) != "fresh\n" {
					t.Errorf("%v: ended by %s: %s", err, res.Reason, describe(res))
				}
			}
		})
	}
	all.Wait()
}

// A70: the same for a binary that was compiled inside, in a kept sandbox.
func TestFreshBuildIsNotBusy(t *testing.T) {
	testenv.Require(t, testenv.GCC)
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{})
	if _, err := sb.CopyIn(context.Background(), []isolate.Input{{Source: filepath.Join("testdata", "hello.c")}}); err != nil {
		t.Fatal(err)
	}
	stop := load(t)
	defer stop()
	res := in(t, sb, "gcc -o first hello.c && ./first")
	says(t, res, "fresh")
	// Compiling takes long under load; writing the file anew is what matters.
	for range freshRuns {
		says(t, in(t, sb, "cp first again && chmod +x again && ./again && rm again"), "fresh")
	}
	for range 3 {
		says(t, in(t, sb, "gcc -o first hello.c && ./first"), "fresh")
	}
}

// load forks small programs from this process without a pause.
func load(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Errorf("the host cannot start a program: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}
