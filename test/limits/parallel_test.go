package limits_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// A71, piston multi_request: of 8 parallel runs one times out and one runs out
// of memory; the others do not notice, and none sees another's output.
func TestLimitsParallel(t *testing.T) {
	l := newLab(t, isolate.Options{})
	const runs, timesOut, takesAll = 8, 2, 5
	results := make([]isolate.Result, runs)
	errs := make([]error, runs)
	var all sync.WaitGroup
	for i := range runs {
		p, way, want := isolate.Policy{Memory: 128 * policy.MiB, Wall: patience}, "end", isolate.ReasonExit
		switch i {
		case timesOut:
			p.Wall, way, want = 2*time.Second, "wall", isolate.ReasonWall
		case takesAll:
			way, want = "oom", isolate.ReasonOOM
		}
		c := hostile(t, "token.py", token(i), way)
		all.Go(func() {
			results[i], errs[i] = l.tryRun(p, c)
			if errs[i] == nil && results[i].Reason != want {
				errs[i] = fmt.Errorf("ended by %s, want %s: %s", results[i].Reason, want, describe(results[i]))
			}
		})
	}
	all.Wait()
	for i, res := range results {
		if errs[i] != nil {
			t.Errorf("run %d: %v", i, errs[i])
			continue
		}
		line := []byte(token(i) + "\n")
		want := bytes.Repeat(line, 20000)
		if i == timesOut && len(res.Stdout.Kept) < len(want) {
			want = want[:len(res.Stdout.Kept)] // its time was up before it had printed all
		}
		if !bytes.Equal(res.Stdout.Kept, want) {
			t.Errorf("run %d has %d bytes of output, not its token 20000 times: %s", i, len(res.Stdout.Kept), describe(res))
		}
		if res.Reason == isolate.ReasonExit && !bytes.Equal(res.Stderr.Kept, line) {
			t.Errorf("run %d: stderr %q", i, res.Stderr.Kept)
		}
	}
}

func token(i int) string { return fmt.Sprintf("token-of-run-%d", i) }
