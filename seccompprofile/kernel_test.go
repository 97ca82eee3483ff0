//go:build linux && cgo && seccomp

package seccompprofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/internal/filtertest"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/seccompprofile"
)

func TestMain(m *testing.M) {
	filtertest.Enter(map[string]func([]string) int{"errors": errorsStage})
	os.Exit(m.Run())
}

var everyProfile = []policy.Profile{policy.ProfileDefault, policy.ProfileCompat, policy.ProfileStrict}

func compile(t *testing.T, p policy.Profile) *seccompprofile.Filter {
	t.Helper()
	f, err := seccompprofile.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestKernel loads every filter into a process that has all capabilities in its
// own namespaces, and makes every special call there.
func TestKernel(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	for _, p := range everyProfile {
		t.Run(p.String(), func(t *testing.T) {
			c := filtertest.Start(t, compile(t, p).BPF, filtertest.Stage("errors", p.String())...)
			ip := denial.IPAllowed
			if p == policy.ProfileStrict {
				ip = denial.IPRefused
			}
			rec := denial.Start(c.Listener, denial.Options{IP: ip})
			status, out := c.Wait(t, 60*time.Second)
			sum := rec.Stop()
			if status.ExitStatus() != 0 || !strings.HasPrefix(out, "made ") {
				t.Fatalf("status %#x\n%s", status, out)
			}
			var made, refusals int
			if _, err := fmt.Sscanf(out, "made %d calls, %d of them notified", &made, &refusals); err != nil {
				t.Fatal(err, out)
			}
			if made < 100 || sum.Total != int64(refusals) {
				t.Errorf("the child made %d calls, %d for the record; recorded are %d: %v", made, refusals, sum.Total, sum.ByCall)
			}
			t.Logf("%s%v", out, sum.ByCall)
		})
	}
}

// attempt is a call and what it must end with.
type attempt struct {
	name     string
	nr       uintptr
	args     [6]uintptr
	want     unix.Errno // 0 is success
	recorded bool
}

// errorsStage makes the calls and prints what is not as expected.
func errorsStage(args []string) int {
	made, recorded, wrong := 0, 0, 0
	for _, a := range attempts(args[0]) {
		_, _, got := unix.RawSyscall6(a.nr, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
		made++
		if a.recorded {
			recorded++
		}
		if got != a.want {
			wrong++
			fmt.Printf("%s(%#x): %q, want %q\n", a.name, a.args, unix.ErrnoName(got), unix.ErrnoName(a.want))
		}
	}
	fmt.Printf("made %d calls, %d of them notified\n", made, recorded)
	return min(wrong, 1)
}

func attempts(profile string) []attempt {
	list := []attempt{
		{"getpid", unix.SYS_GETPID, [6]uintptr{}, 0, false},
		// Escapes (A46, A50, B24, B29). Without the filter the child, which
		// has all capabilities in its namespaces, could do several of them.
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWNS}, unix.EPERM, true},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}, unix.EPERM, true},
		{"setns", unix.SYS_SETNS, [6]uintptr{1}, unix.EPERM, true},
		{"mount", unix.SYS_MOUNT, [6]uintptr{}, unix.EPERM, true},
		{"umount2", unix.SYS_UMOUNT2, [6]uintptr{}, unix.EPERM, true},
		{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uintptr{}, unix.EPERM, true},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{}, unix.EPERM, true},
		{"ptrace", unix.SYS_PTRACE, [6]uintptr{}, unix.EPERM, true},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uintptr{1}, unix.EPERM, true},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, [6]uintptr{1}, unix.EPERM, true},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{}, unix.EPERM, true},
		{"kcmp", unix.SYS_KCMP, [6]uintptr{}, unix.EPERM, true},
		{"bpf", unix.SYS_BPF, [6]uintptr{}, unix.EPERM, true},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{}, unix.EPERM, true},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{}, unix.EPERM, true},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{}, unix.EPERM, true},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{}, unix.EPERM, true},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uintptr{}, unix.ENOSYS, false},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{}, unix.EPERM, true},
		{"request_key", unix.SYS_REQUEST_KEY, [6]uintptr{}, unix.EPERM, true},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{}, unix.EPERM, true},
		{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{}, unix.EPERM, true},
		{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{}, unix.EPERM, true},
		{"syslog", unix.SYS_SYSLOG, [6]uintptr{}, unix.EPERM, false},
		{"seccomp", unix.SYS_SECCOMP, [6]uintptr{unix.SECCOMP_GET_ACTION_AVAIL}, unix.EPERM, false},
		{"prctl", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_STRICT}, unix.EPERM, false},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0x40000}, unix.EPERM, false},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0xffffffff}, 0, false},
		// A47, and what else makes libraries fall back.
		{"clone3", unix.SYS_CLONE3, [6]uintptr{}, unix.ENOSYS, false},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{}, unix.ENOSYS, false},
		{"fsopen", unix.SYS_FSOPEN, [6]uintptr{}, unix.ENOSYS, false},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{}, unix.ENOSYS, false},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, [6]uintptr{}, unix.ENOSYS, false},
		{"futex_waitv", unix.SYS_FUTEX_WAITV, [6]uintptr{}, unix.ENOSYS, false},
		{"an unknown call", 600, [6]uintptr{}, unix.ENOSYS, false},
		// B32 to B36.
		{"ioctl", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCSTI | 1<<32}, unix.ENOTTY, false},
		{"ioctl", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCLINUX | 1<<32}, unix.ENOTTY, false},
		{"ioctl", unix.SYS_IOCTL, [6]uintptr{^uintptr(0), unix.TCGETS}, unix.EBADF, false}, // passes the filter
		{"splice", unix.SYS_SPLICE, [6]uintptr{}, unix.EINVAL, false},
		{"vmsplice", unix.SYS_VMSPLICE, [6]uintptr{^uintptr(0)}, unix.EINVAL, false},
		{"futex", unix.SYS_FUTEX, [6]uintptr{0, 6}, unix.ENOSYS, false},
		{"futex", unix.SYS_FUTEX, [6]uintptr{0, 128 | 12}, unix.ENOSYS, false},
		{"sched_setattr", unix.SYS_SCHED_SETATTR, [6]uintptr{}, unix.EPERM, false},
		{"setrlimit", unix.SYS_SETRLIMIT, [6]uintptr{unix.RLIMIT_CORE}, unix.EPERM, false},
		{"prlimit64", unix.SYS_PRLIMIT64, [6]uintptr{0, unix.RLIMIT_CORE, 1}, unix.EPERM, false},
		{"prlimit64", unix.SYS_PRLIMIT64, [6]uintptr{0, unix.RLIMIT_CORE | 1<<32, 1}, unix.EPERM, false},
		{"prlimit64", unix.SYS_PRLIMIT64, [6]uintptr{0, unix.RLIMIT_CORE}, 0, false},
		{"setxattr", unix.SYS_SETXATTR, [6]uintptr{}, unix.EOPNOTSUPP, false},
		// B13: to a socket that does not exist; the filter comes first.
		{"sendto", unix.SYS_SENDTO, [6]uintptr{^uintptr(0), 0, 0, unix.MSG_OOB}, unix.EOPNOTSUPP, false},
		{"sendto", unix.SYS_SENDTO, [6]uintptr{^uintptr(0)}, unix.EBADF, false},
		{"sendmsg", unix.SYS_SENDMSG, [6]uintptr{^uintptr(0), 0, unix.MSG_OOB}, unix.EOPNOTSUPP, false},
		{"recvfrom", unix.SYS_RECVFROM, [6]uintptr{^uintptr(0), 0, 0, unix.MSG_OOB}, unix.EOPNOTSUPP, false},
		{"recvmsg", unix.SYS_RECVMSG, [6]uintptr{^uintptr(0), 0, unix.MSG_OOB}, unix.EOPNOTSUPP, false},
	}
	// A46: every namespace by clone as well.
	for _, flag := range []uintptr{unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
		unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWCGROUP} {
		list = append(list, attempt{"clone", unix.SYS_CLONE, [6]uintptr{flag | uintptr(unix.SIGCHLD)}, unix.EPERM, true})
	}
	// B3: the wrong register, the right family in its lower half.
	list = append(list,
		attempt{"socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET | 1<<32, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, true},
		attempt{"socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_UNIX | 1<<32, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, true})
	return append(list, sockets(profile)...)
}

// sockets are all families and types (A5, A11, B1, B2).
func sockets(profile string) []attempt {
	var list []attempt
	for family := uintptr(0); family <= 46; family++ {
		for typ := uintptr(1); typ <= 10; typ++ {
			a := attempt{"socket", unix.SYS_SOCKET, [6]uintptr{family, typ | unix.SOCK_CLOEXEC}, unix.EAFNOSUPPORT, true}
			plain := typ == unix.SOCK_STREAM || typ == unix.SOCK_DGRAM
			switch {
			case family == unix.AF_UNIX && (plain || typ == unix.SOCK_SEQPACKET):
				a.want, a.recorded = 0, false
			case family == unix.AF_UNIX:
				a.want = unix.ESOCKTNOSUPPORT
			case family != unix.AF_INET && family != unix.AF_INET6:
			case typ == unix.SOCK_RAW:
				a.want = unix.EPERM
			case !plain:
				a.want = unix.ESOCKTNOSUPPORT
			case profile == "strict":
				a.want = unix.ENETUNREACH
			default:
				a.want, a.recorded = 0, false
			}
			list = append(list, a)
		}
	}
	const ping, mptcp = unix.IPPROTO_ICMP, unix.IPPROTO_MPTCP
	return append(list,
		attempt{"socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_DGRAM, ping}, unix.EPROTONOSUPPORT, true},
		attempt{"socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, unix.EPROTONOSUPPORT, true},
		attempt{"socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM, mptcp}, unix.EPROTONOSUPPORT, true},
		attempt{"socketpair", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_TIPC, unix.SOCK_STREAM}, unix.EAFNOSUPPORT, true},
	)
}

// TestForeignCalls: an i386 and an x32 call end the process with SIGSYS (A49,
// B4), from whichever thread.
func TestForeignCalls(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.GCC)
	for name, code := range map[string]string{
		// 359 is socket on i386, 20 getpid.
		"int 0x80 socket": `int r; asm volatile("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(1), "d"(0));`,
		"int 0x80 getpid": `int r; asm volatile("int $0x80" : "=a"(r) : "a"(20));`,
		"x32 socket":      `syscall(0x40000000 | 41, 2, 1, 0);`,
		"x32 getpid":      `syscall(0x40000000 | 39);`,
	} {
		t.Run(name, func(t *testing.T) {
			prog := compileC(t, `#include <pthread.h>
				#include <unistd.h>
				#include <sys/syscall.h>
				static void *thread(void *p) { `+code+` return 0; }
				int main() { pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0); return 0; }`)
			if strings.HasPrefix(name, "int") {
				if err := exec.Command(prog).Run(); err != nil {
					t.Skipf("needs a kernel with i386 emulation: without the filter the call ends with %v", err)
				}
			}
			for _, p := range everyProfile {
				c := filtertest.Start(t, compile(t, p).BPF, prog)
				status, out := c.Wait(t, 60*time.Second)
				if !status.Signaled() || status.Signal() != syscall.SIGSYS {
					t.Errorf("%v: status %#x, want SIGSYS\n%s", p, status, out)
				}
			}
		})
	}
}

func compileC(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	src, prog := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", prog, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return prog
}

// TestSilentKernel: without a listener what would be notified is refused, and
// loopback still works.
func TestSilentKernel(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	f, err := seccompprofile.CompileSilent(policy.ProfileDefault)
	if err != nil {
		t.Fatal(err)
	}
	c := filtertest.StartSilent(t, f.BPF, "python3", "-c", `
import socket
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
try: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError as e: print(e.strerror)
`)
	status, out := c.Wait(t, 60*time.Second)
	if status.ExitStatus() != 0 || out != "Address family not supported by protocol\n" {
		t.Errorf("status %#x, output %q", status, out)
	}
}
