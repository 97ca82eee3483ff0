//go:build linux

// Package filtertest starts a program under a seccomp filter for a test, in a
// user and network namespace of its own, and hands the test the notification
// listener.
//
// It stands in for the sandbox where only the filter is under test: there are
// no mounts, no limits and no dropped capabilities, so that an error a test sees
// is the filter's and not the kernel's. It needs unprivileged user namespaces
// and Linux 5.19. Nothing outside tests imports it.
package filtertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first argument of a re-executed test binary.
const (
	loadArg  = "filtertest-load"
	stageArg = "filtertest-stage"
)

// Enter is the first statement of TestMain. In a process that Start made it
// loads the filter, or runs the stage with the arguments given to Stage, and
// ends the process; a stage's result is the exit code. In the test itself it
// does nothing.
func Enter(stages map[string]func(args []string) int) {
	if len(os.Args) < 3 {
		return
	}
	switch os.Args[1] {
	case loadArg:
		fmt.Fprintln(os.Stderr, load(os.Args[2], os.Args[3:]))
		os.Exit(125)
	case stageArg:
		os.Exit(stages[os.Args[2]](os.Args[3:]))
	}
}

// Stage is the command line that runs a stage of this test binary.
func Stage(name string, args ...string) []string {
	return append([]string{"/proc/self/exe", stageArg, name}, args...)
}

// Child is a program under a filter.
type Child struct {
	// Listener is the notification listener; nil for a filter without one.
	Listener *os.File
	PID      int

	cmd *exec.Cmd
	out bytes.Buffer
}

// Start runs a command line under a filter that has notifications. The child is
// killed when the test ends.
func Start(t testing.TB, bpf []byte, argv ...string) *Child {
	t.Helper()
	return start(t, bpf, "listener", argv)
}

// StartSilent does the same for a filter without notifications.
func StartSilent(t testing.TB, bpf []byte, argv ...string) *Child {
	t.Helper()
	return start(t, bpf, "silent", argv)
}

func start(t testing.TB, bpf []byte, mode string, argv []string) *Child {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()

	c := &Child{cmd: exec.Command("/proc/self/exe", append([]string{loadArg, mode}, argv...)...)}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.ExtraFiles = []*os.File{theirs}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	// The death signal is sent when the thread that started the child ends.
	runtime.LockOSThread()
	err = c.cmd.Start()
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatalf("cannot start a child in its own namespaces: %v", err)
	}
	theirs.Close()
	c.PID = c.cmd.Process.Pid
	t.Cleanup(func() {
		c.Kill()
		c.cmd.Wait() // a second time in most tests
		if c.Listener != nil {
			c.Listener.Close()
		}
	})
	if _, err := ours.Write(bpf); err != nil {
		t.Fatal(err)
	}
	if mode == "listener" {
		c.Listener = c.receive(t, ours)
	}
	return c
}

func (c *Child) receive(t testing.TB, from *os.File) *os.File {
	t.Helper()
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(from.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		c.cmd.Wait()
		t.Fatalf("the child sent no listener: %v\n%s", err, c.out.Bytes())
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		t.Fatalf("the child sent no listener: %v", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("the child sent no listener: %v", err)
	}
	return os.NewFile(uintptr(fds[0]), "listener")
}

// Kill sends SIGKILL.
func (c *Child) Kill() { c.cmd.Process.Kill() }

// Wait waits for the child's end, at most so long, and returns how it ended and
// what it wrote to both streams.
func (c *Child) Wait(t testing.TB, within time.Duration) (syscall.WaitStatus, string) {
	t.Helper()
	timer := time.AfterFunc(within, c.Kill)
	c.cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("the child did not end within %v\n%s", within, c.out.Bytes())
	}
	return c.cmd.ProcessState.Sys().(syscall.WaitStatus), c.out.String()
}

// load is the child before the command: the loopback up, the filter on this
// thread, the listener sent, execve. It only returns an error.
func load(mode string, argv []string) error {
	runtime.LockOSThread()
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot bring lo up: %w", err)
	}
	if !strings.Contains(argv[0], "/") {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return err
		}
		argv[0] = path
	}
	bpf := make([]byte, 1<<16)
	n, err := unix.Read(3, bpf)
	if err != nil {
		return err
	}
	var flags uintptr
	if mode == "listener" {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(n / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&bpf[0]))}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("cannot load the filter: %w", errno)
	}
	if mode == "listener" {
		if err := unix.Sendmsg(3, []byte{1}, unix.UnixRights(int(fd)), nil, 0); err != nil {
			return fmt.Errorf("cannot send the listener: %w", err)
		}
		unix.Close(int(fd))
	}
	unix.Close(3)
	return syscall.Exec(argv[0], argv, os.Environ())
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
