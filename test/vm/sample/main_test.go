// Package sample_test proves that the virtual machine of test/vm gives what the
// product's own tests rely on: a delegated cgroup v2 in which limits hold, and
// a systemd user manager that hands one out.
//
// It tests the kernel and systemd, not this project. It needs Linux 5.14 and
// skips where nothing is delegated.
package sample_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// roleVariable makes the test binary play a child instead of running tests.
const roleVariable = "ISOLATE_VM_SAMPLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "hog":
		hog()
	case "spin":
		for start := time.Now(); time.Since(start) < spinTime; {
		}
	case "wait":
		io.Copy(io.Discard, os.Stdin)
	case "where":
		where()
	case "self":
		// The caller's own process asks for its scope and reports where it is.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		dir, err := delegatedScope(ctx, os.Args[1], os.Getpid())
		fmt.Println(dir, err)
	}
}

// patience bounds what takes a second on the emulated machine.
const patience = 60 * time.Second

// hogBytes is four times the limit the hog is put under.
const hogBytes = 64 << 20

// spinTime is five periods of the processor limit.
const spinTime = 500 * time.Millisecond

// hog writes to every page it asks for, then ends well.
func hog() {
	block := make([]byte, hogBytes)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
}

// child is this binary in a role.
func child(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	c.Env = append(os.Environ(), roleVariable+"="+role)
	c.WaitDelay = time.Second
	return c
}

// waiter starts a child that lives until the returned function is called.
func waiter(t *testing.T) (pid int, end func()) {
	t.Helper()
	c := child(t, "wait")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			stdin.Close()
			c.Wait()
		}
	}
	t.Cleanup(end)
	return c.Process.Pid, end
}
