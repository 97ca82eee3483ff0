package main

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// What a command begins before main (container/early.go) ends with it, whether
// main wants it or not.
func TestNothingBegunIsLeft(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, args := range [][]string{{"exec", "--help"}, {"exec", "--no-such-flag"}, {"run", "/no/such/program"}, {"exec", "--allow", "weak-limits", "--", "true"}} {
		for range 5 {
			_ = exec.Command("isolate", args...).Run()
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err == unix.ECHILD {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%q: a process is left after 20 s", args)
			}
		}
	}
}
