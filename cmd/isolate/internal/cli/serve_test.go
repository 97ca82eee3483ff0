package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
)

// TestAnswerRefuses: a command line that is none of the three does nothing,
// and does no harm to the server.
func TestAnswerRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {""}, {"--memory", "1G"}, {"serve"}, {"doctor"}, {"help"}, {"__complete", ""}, {"--version"}} {
		f := &fake{}
		if code := testApp(f, "/", nil, io.Discard, io.Discard).answer(t.Context(), args); code != exitRefused {
			t.Errorf("%q: code %d", args, code)
		}
	}
}

// TestServerIsToBlame: what only the server lacks is told as that, with or
// without a run, and nothing else is.
func TestServerIsToBlame(t *testing.T) {
	lacks := plan.Problem{What: "cannot limit", Remedy: "change your groups"}
	other := plan.Problem{What: "cannot bind", Remedy: "name another"}
	refusal := &plan.Refusal{Problems: []plan.Problem{lacks, other}}
	for _, args := range [][]string{{"exec", "true"}, {"exec", "--explain"}} {
		f := &fake{planErr: refusal, run: func(context.Context, isolate.Cmd) (isolate.Result, error) { return isolate.Result{}, refusal }}
		for _, own := range [][]plan.Problem{nil, {lacks}} {
			var stderr strings.Builder
			a := testApp(f, "/", nil, io.Discard, &stderr)
			a.via, a.lacks = viaServer, own
			if code := a.answer(t.Context(), args); code != exitRefused {
				t.Errorf("%q: code %d", args, code)
			}
			text := stderr.String()
			if strings.Contains(text, "--no-server") != (own != nil) || strings.Contains(text, lacks.Remedy) != (own == nil) || !strings.Contains(text, other.Remedy) {
				t.Errorf("%q, the server lacks %v: %s", args, own, text)
			}
		}
	}
}

// TestCallSignals: a signal that comes before anybody asks for it is not lost,
// and nobody who does not take one is waited for.
func TestCallSignals(t *testing.T) {
	from := make(chan syscall.Signal)
	c := newCallSignals(from)
	from <- syscall.SIGTERM
	i := watchSignals(context.Background(), c, stops...)
	select {
	case <-i.ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the early signal is lost")
	}
	if i.signal() != syscall.SIGTERM {
		t.Errorf("signal %v", i.signal())
	}
	size := make(chan os.Signal, 1)
	c.notify(size, syscall.SIGWINCH)
	for range 3 {
		from <- syscall.SIGWINCH
	}
	if s := <-size; s != syscall.SIGWINCH {
		t.Errorf("signal %v", s)
	}
	c.stop(size)
	i.stop()
	for range 2 * maxEarly {
		from <- syscall.SIGHUP
	}
	close(from)
	c.wait()
	c.notify(size, syscall.SIGHUP) // after the end it is no mistake
}
