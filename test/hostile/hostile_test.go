// Package hostile tries against isolation what a hostile program would: one
// script in testdata/escape for each denial, listed with its answer and the
// layer that gives it, and the attacks that need the host's side as well.
//
// It does not test that honest programs work, and of limits only what a
// program does to get around them. It needs Linux with user namespaces, a
// writable memory and pids controller, and gcc.
//
// No packet of these tests can leave the machine even if isolation failed:
// the whole test binary runs in a network namespace of its own, whose loopback
// interface has the addresses that stand for the outside.
package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// stageKey names the variable that says which part a process of the test
// binary plays. The first one has none and only starts the second.
const stageKey = "ISOLATE_HOSTILE_STAGE"

// stages are the parts a process can play instead of running tests: hosts that
// lack something, supervisors that die. Each returns the exit code.
var stages = map[string]func() int{}

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(play(m, os.Getenv(stageKey)))
}

func play(m *testing.M, stage string) int {
	switch stage {
	case "":
		return inOwnNetwork(m)
	case "wire":
		return wire()
	case "tests":
		os.Unsetenv(stageKey)
		return withOutside(m)
	}
	do, ok := stages[stage]
	if !ok {
		fmt.Fprintf(os.Stderr, "no stage %q\n", stage)
		return 2
	}
	os.Unsetenv(stageKey)
	return do()
}

// inOwnNetwork runs the tests in a network namespace of their own. An ordinary
// user needs a user namespace to make one.
func inOwnNetwork(m *testing.M) int {
	c := again("wire", unix.CLONE_NEWNET, unix.CAP_NET_ADMIN)
	c.Args = os.Args
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	// go test sends these to us alone, to see the goroutines or to end.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
	err := c.Start()
	if err == nil {
		go func() {
			for s := range signals {
				_ = c.Process.Signal(s) // it may have ended
			}
		}()
		err = c.Wait()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EPERM):
		// No namespaces: each test says so for itself.
		return m.Run()
	}
	fmt.Fprintf(os.Stderr, "cannot run the tests in a network of their own: %v\n", err)
	return 1
}

// again starts the test binary once more as a stage, in new namespaces. For an
// ordinary user they come with a user namespace in which the child holds caps.
func again(stage string, namespaces uintptr, caps ...uintptr) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), stageKey+"="+stage)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: unix.SIGKILL}
	if os.Geteuid() != 0 || namespaces&unix.CLONE_NEWUSER != 0 {
		c.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		c.SysProcAttr.AmbientCaps = caps
	}
	return c
}

// become executes the test binary as another stage, and as an ordinary user
// without a capability.
func become(stage string) error {
	runtime.LockOSThread()
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return err
		}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			return err
		}
	}
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, stageKey+"=") {
			env = append(env, kv)
		}
	}
	return unix.Exec("/proc/self/exe", os.Args, append(env, stageKey+"="+stage))
}

// The addresses that stand for the outside: a public one, the metadata
// service's, one of a company's network. They are this namespace's own.
var outsideAddresses = []string{"192.0.2.1", "169.254.169.254", "10.0.0.5"}

// wire sets the network namespace up and goes on to the tests.
func wire() int {
	err := loopback()
	if err == nil {
		// The metadata service answers on port 80.
		err = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	}
	if err == nil {
		err = become("tests")
	}
	fmt.Fprintf(os.Stderr, "cannot make a network for the tests: %v\n", err)
	return 1
}

// loopback brings lo up and gives it the outside addresses.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	for i, a := range outsideAddresses {
		r, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
		if err != nil {
			return err
		}
		var ip [4]byte
		if _, err := fmt.Sscanf(a, "%d.%d.%d.%d", &ip[0], &ip[1], &ip[2], &ip[3]); err != nil {
			return err
		}
		if err := r.SetInet4Addr(ip[:]); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, unix.SIOCSIFADDR, r); err != nil {
			return fmt.Errorf("give lo %s: %w", a, err)
		}
	}
	return addOutside6()
}

// outside6 is the public address of version 6. Hosts without IPv6 do not have it.
const outside6 = "2001:db8::1"

func addOutside6() error {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r := struct { // struct in6_ifreq
		addr   [16]byte
		prefix uint32
		index  int32
	}{addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}, prefix: 128, index: 1} // lo is the first interface
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&r))); errno != 0 && errno != unix.EOPNOTSUPP {
		return fmt.Errorf("give lo %s: %w", outside6, errno)
	}
	return nil
}
