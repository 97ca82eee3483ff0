package ahead

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be the command: the constructors run in it, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "exec" {
		os.Exit(inside(os.Args[2]))
	}
	os.Exit(m.Run())
}

// inside says what a process is, or starts its own executable again as
// libcontainer does: "again" from another directory, "later" when standard
// input has ended.
func inside(what string) int {
	switch what {
	case "later":
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		fallthrough
	case "again":
		c := exec.Command("/proc/self/exe", "exec", "say", os.Args[3])
		c.Args[0], c.Dir, c.Stdout, c.Stderr = os.Args[0], "/", os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Println(err)
			return c.ProcessState.ExitCode()
		}
		return 0
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fi, _ := f.Stat()
	seals, _ := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	comm, _ := os.ReadFile("/proc/self/comm")
	fmt.Printf("small=%t sealed=%t comm=%s args=%q x=%q\n", fi.Size() < 64<<10,
		seals&unix.F_SEAL_WRITE != 0, strings.TrimSpace(string(comm)), os.Args[1:], os.Getenv("X"))
	return 0
}

// light starts a copy of this test as the command.
func light(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the loader is for amd64")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "isolate-light-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "isolate")
	if err = os.WriteFile(file, self, 0o755); err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(file, append([]string{"exec"}, args...)...)
	c.Env = []string{"X=a b", "ISOLATE_SOCKET=/nonexistent"}
	if os.Geteuid() == 0 { // it is for ordinary users
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return c, file
}

const says = "small=true sealed=true comm=isolate args=[\"exec\" \"say\" \"\\xff $x\"] x="

func TestLight(t *testing.T) {
	c, _ := light(t, "say", "\xff $x")
	if out, err := c.CombinedOutput(); err != nil || string(out) != says+"\"a b\"\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// What libcontainer executes is as light as we are.
func TestLightAgain(t *testing.T) {
	c, _ := light(t, "again", "\xff $x")
	if out, err := c.CombinedOutput(); err != nil || string(out) != says+"\"a b\"\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// A file that was exchanged meanwhile is not run.
func TestLightExchanged(t *testing.T) {
	c, file := light(t, "later", "x")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	c.Stderr = &words
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, len("ready\n")))
	other := file + ".new"
	err = os.WriteFile(other, []byte("#!/bin/sh\necho other\n"), 0o755)
	if err == nil {
		err = os.Rename(other, file)
	}
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 125 {
		t.Errorf("ended with %v", err)
	}
	if !strings.Contains(words.String(), "exchanged while it ran") {
		t.Errorf("said %q", words.String())
	}
}
