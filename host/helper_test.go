package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	errEPERM  = syscall.EPERM
	errEACCES = syscall.EACCES
)

// helperName is argv[0] of a test binary that plays a role: it puts itself
// into a state and prints what Probe says there.
const helperName = "isolate-host-test-helper"

// roles put the helper into the states that can be made on any machine.
var roles = map[string]func() error{
	"as-is":        func() error { return nil },
	"wait":         waitForLine,
	"no-userns":    func() error { return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0) },
	"masked-proc":  maskProc,
	"memfd-noexec": forbidMemfd,
	"filtered":     refuseNamespaces,
	"no-pivot":     func() error { return refuse(errEPERM, unix.SYS_PIVOT_ROOT) },
	"no-memfd":     func() error { return refuse(errEPERM, unix.SYS_MEMFD_CREATE) },
	"no-openat2":   func() error { return refuse(syscall.ENOSYS, unix.SYS_OPENAT2) },
	"probe-alone":  forbidProcesses,
	"no-seccomp":   func() error { return refuse(errEPERM, unix.SYS_SECCOMP) },
}

func TestMain(m *testing.M) {
	if RunProbeChild() == ProbeChildDone {
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[0] == helperName {
		os.Exit(helper(os.Args[1]))
	}
	os.Exit(m.Run())
}

func helper(role string) int {
	if role == "blocking-alone" {
		if forbidProcesses() != nil {
			return 1
		}
		Blocking(context.Background(), ThisProcess())
		DetectCgroups(ThisProcess())
		return 0
	}
	err := roles[role]()
	if err == nil {
		o := ThisProcess()
		err = json.NewEncoder(os.Stdout).Encode(helperAnswer{
			Report: Probe(context.Background(), o), Blocking: Blocking(context.Background(), o),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperAnswer is what a helper prints; seen is how it is read.
type (
	helperAnswer struct {
		Report   Report
		Blocking []Check
	}
	seen struct {
		Report struct {
			Verdict  Verdict  `json:"verdict"`
			Identity Identity `json:"identity"`
			Cgroups  Cgroups  `json:"cgroups"`
			Checks   []Check  `json:"checks"`
		}
		Blocking []Check
	}
)

func (s seen) check(id string) Check { return Report{Checks: s.Report.Checks}.Check(id) }

// helperCommand prepares a helper. As root it runs as an ordinary user unless
// attr names another; without attr in no namespaces.
func helperCommand(t *testing.T, role string, attr *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = []string{helperName, role}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	return cmd
}

// ask runs a helper to its end.
func ask(t *testing.T, cmd *exec.Cmd) seen {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper %s: %v", cmd.Args[1], err)
	}
	return decodeSeen(t, out)
}

func decodeSeen(t *testing.T, out []byte) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("helper printed %q: %v", out, err)
	}
	return s
}

// ordinaryUser is the user id tests run helpers as when they are root.
const ordinaryUser = 1500

// ordinary makes the helper an ordinary user's process.
func ordinary() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
}

// inNamespaces makes the helper root of new namespaces.
func inNamespaces(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

func waitForLine() error {
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// maskProc covers a file of a fresh /proc, as container runtimes do.
func maskProc() error {
	return errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("/dev/null", "/proc/interrupts", "", unix.MS_BIND, ""))
}

// forbidMemfd sets vm.memfd_noexec for the pid namespace of the helper.
func forbidMemfd() error {
	return errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0))
}

// refuseNamespaces filters the calls that make user namespaces, as Docker does.
func refuseNamespaces() error {
	return load(
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CLONE3},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLONE},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // low half of the first argument
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.CLONE_NEWUSER},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// forbidProcesses ends the helper when it starts one. Threads come by clone
// with CLONE_THREAD, or by clone3, which Go does not use for processes.
func forbidProcesses() error {
	return load(
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLONE},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 1, K: unix.CLONE_THREAD},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// refuse filters one call.
func refuse(e syscall.Errno, nr uint32) error {
	return load(
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(e)},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// load puts a filter on every thread of the helper.
func load(program ...unix.SockFilter) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}

// ownGroups makes a version 1 group for each controller below this process's
// own and gives it to the ordinary user.
func ownGroups(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, c := range DetectCgroups(ThisProcess()).Controllers() {
		dir := c.Dir + "/isolate-host-test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(t.Name())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("cannot remove the test's group: %v", err)
			}
		})
		if err := os.Chown(dir, ordinaryUser, ordinaryUser); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
