package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// BenchmarkPreload starts Python programs from an interpreter that was started
// ahead, beside the same programs started anew in a sandbox, under bubblewrap
// and bare, in one interleaved run. Use -benchtime 100x or more.
func BenchmarkPreload(b *testing.B) {
	testenv.Require(b, testenv.Python3, testenv.Bwrap)
	b.Run("pass", func(b *testing.B) { benchPreload(b, "python", "pass") })
	b.Run("numpy", func(b *testing.B) {
		testenv.Require(b, testenv.NumPy)
		benchPreload(b, "python:numpy", "import numpy")
	})
}

func benchPreload(b *testing.B, what, script string) {
	spec, err := policy.ParsePreload(what)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{Spares: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	}()
	// by its path: the caller's PATH may lead to another Python
	const python = "/usr/bin/python3"
	peer, ok := bubblewrap(b, python, "-c", script)
	if !ok {
		b.Fatal("there is no bubblewrap")
	}
	interleaved(b, script, []contender{
		{"fork+exec", "none", func() error { return exec.Command(python, "-c", script).Run() }},
		{"warm", "all: see isolate exec --explain", inSandbox(ctx, r, policy.Policy{}, script)},
		{"preloaded", "the same; memory laid out alike", inSandbox(ctx, r, policy.Policy{Preload: spec}, script)},
		// the one made ahead is used up: this one waits for the next
		{"pre, at once", "the same", inSandbox(ctx, r, policy.Policy{Preload: spec}, script)},
		peer,
	})
}

func inSandbox(ctx context.Context, r *isolate.Runtime, p policy.Policy, script string) func() error {
	return func() error {
		res, err := r.Run(ctx, p, isolate.Cmd{Args: []string{"python3", "-c", script}})
		if err == nil && (res.Reason != isolate.ReasonExit || res.ExitCode != 0) {
			err = fmt.Errorf("ended with %s %d: %s", res.Reason, res.ExitCode, strings.TrimSpace(string(res.Stderr.Kept)))
		}
		return err
	}
}
