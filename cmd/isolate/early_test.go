package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// A server that is not wanted hears nothing: one that is started by its socket is
// not started, and one that is stuck is not waited for.
func TestNoServerIsNotAsked(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // the name of a socket has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connected := func(patience time.Duration, args ...string) bool {
		c := exec.Command("isolate", args...)
		c.Env = append(os.Environ(), "ISOLATE_SOCKET="+at)
		_ = c.Run()
		_ = l.SetDeadline(time.Now().Add(patience)) // who has connected is in the queue when the command has ended
		s, err := l.Accept()
		if err == nil {
			s.Close()
		}
		return err == nil
	}
	for _, args := range [][]string{{"exec", "--no-server", "--no-such-flag"}, {"run", "--tool", "a=b", "--no-server", "/no/such/program"}} {
		if connected(100*time.Millisecond, args...) {
			t.Errorf("%q connects", args)
		}
	}
	if !connected(time.Minute, "run", "--tool", "a=b", "/no/such/program") {
		t.Error("nobody has looked for a server at all")
	}
}
