package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

var update = flag.Bool("update", false, "write the expected texts in the scripts anew")

// TestMain lets the test binary be the isolate command in the scripts, also
// where that starts itself again to build a cell.
func TestMain(m *testing.M) {
	isolate.Init()
	testscript.Main(m, map[string]func(){"isolate": main})
}

// TestScripts runs what needs no sandbox: words, refusals, forms.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// TestSandboxScripts runs programs in sandboxes.
func TestSandboxScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	runScripts(t, "testdata/sandbox")
}

// TestNodeScripts runs JavaScript programs in sandboxes.
func TestNodeScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Tool("node"))
	runScripts(t, "testdata/node")
}

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Sockets are made there, and their paths have little room.
			run, err := os.MkdirTemp("", "isolate-script-")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(run) })
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TERM", "xterm")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  code,
			"empty": empty,
		},
	})
}

// code N PROGRAM ARGUMENTS runs a program that must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [argument ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || errors.Is(err, context.DeadlineExceeded) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// empty DIR checks that a directory has nothing in it, or does not exist.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty directory")
	}
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	for _, e := range entries {
		ts.Fatalf("%s has %q in it", args[0], e.Name())
	}
}
