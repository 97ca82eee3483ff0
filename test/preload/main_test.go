// Package preload_test shows that a program forked from a preloaded interpreter
// finds what it would find if the interpreter were started for it, and nothing
// of another sandbox.
package preload_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// open makes a Runtime that must end without anything left behind.
func open(t *testing.T, o isolate.Options) *isolate.Runtime {
	t.Helper()
	testenv.Require(t, testenv.UserNS, testenv.Python3, testenv.Memory, testenv.PIDs)
	r, err := isolate.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// preloading is a policy that preloads.
func preloading(t *testing.T, text string) isolate.Policy {
	t.Helper()
	s, err := policy.ParsePreload(text)
	if err != nil {
		t.Fatal(err)
	}
	return isolate.Policy{Preload: s, Wall: 30 * time.Second}
}

// python runs a command line of the interpreter's.
func python(t *testing.T, r *isolate.Runtime, p isolate.Policy, args ...string) isolate.Result {
	t.Helper()
	return run(t, r, p, isolate.Cmd{Args: append([]string{"python3"}, args...)})
}

func run(t *testing.T, r *isolate.Runtime, p isolate.Policy, c isolate.Cmd) isolate.Result {
	t.Helper()
	res, err := r.Run(context.Background(), p, c)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// says is what a program prints that must succeed.
func says(t *testing.T, r *isolate.Runtime, p isolate.Policy, script string) string {
	t.Helper()
	res := python(t, r, p, "-c", script)
	if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
		t.Fatalf("ended with %s %d %s\n%s", res.Reason, res.ExitCode, res.Detail, res.Stderr.Kept)
	}
	return strings.TrimSpace(string(res.Stdout.Kept))
}

// files makes a directory with these files, for the workspace or for modules.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "isolate-preload-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
