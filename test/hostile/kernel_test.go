package hostile

import (
	"errors"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

var kernelDenials = []attack{{
	script: "kernel_sweep.c", cases: "A50 B16", layer: byFilter, inTest: "TestSweep",
	attempt: "every system call number from 0 to 600 with zeros", source: "sandlock seccomp tests, trinity",
	answers: "escape indicators: EPERM\nnew interfaces: ENOSYS\nnumbers of no call: ENOSYS",
}, {
	script: "kernel_x32.c", arch: "amd64", cases: "A49 B4", layer: byFilter,
	says:    "killed; numbers of no call `ENOSYS`",
	attempt: "calls by x32 numbers, numbers that are none", source: "kafel #19, isolate #190",
	answers: `
		x32 read: signal-31
		x32 getpid: signal-31
		x32 socket: signal-31
		x32 execve: signal-31
		x32 ptrace: signal-31
		x32 unshare: signal-31
		x32 number of the native table: ENOSYS
		number with the sign bit: signal-31
		number 100000: ENOSYS
		number -1: ENOSYS`,
}, {
	script: "kernel_int80.c", arch: "amd64", cases: "A49 B4", layer: byFilter, inTest: "TestForeignTables", kills: true,
	attempt: "the 32-bit table by int 0x80", source: "moby's reverted socketcall block",
}, {
	script: "kernel_i386.c", arch: "amd64", cases: "A49 B4", layer: byFilter, inTest: "TestForeignTables", kills: true,
	attempt: "a 32-bit program", source: "moby's reverted socketcall block",
}, {
	script: "kernel_storm.c", cases: "B49", layer: byPIDNS,
	attempt: "a storm of vfork and exec, signals to all", source: "own",
	answers: `
		500 times vfork and exec: ok
		200 times every signal to the own group and to all: ok
		SIGKILL to all but init and itself: ESRCH
		SIGSTOP to all but init and itself: ESRCH`,
}}

func TestKernel(t *testing.T) {
	// A process of the same user outside must not hear of the storm.
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bystander.Process.Kill(); err != nil {
			t.Errorf("a process outside was hit: %v", err)
		}
		if state, _ := bystander.Process.Wait(); state.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Errorf("a process outside was hit: %v", state)
		}
	}()
	runDenials(t, kernelDenials)
}

// indicators are the calls of an escape, with the answer of every profile.
var indicators = map[int]string{
	unix.SYS_MOUNT: "EPERM", unix.SYS_UMOUNT2: "EPERM", unix.SYS_UNSHARE: "EPERM", unix.SYS_SETNS: "EPERM",
	unix.SYS_PIVOT_ROOT: "EPERM", unix.SYS_CHROOT: "EPERM", unix.SYS_PTRACE: "EPERM", unix.SYS_BPF: "EPERM",
	unix.SYS_PROCESS_VM_READV: "EPERM", unix.SYS_PROCESS_VM_WRITEV: "EPERM", unix.SYS_PIDFD_GETFD: "EPERM",
	unix.SYS_KCMP: "EPERM", unix.SYS_PERF_EVENT_OPEN: "EPERM", unix.SYS_USERFAULTFD: "EPERM",
	unix.SYS_FANOTIFY_INIT: "EPERM", unix.SYS_OPEN_BY_HANDLE_AT: "EPERM", unix.SYS_ADD_KEY: "EPERM",
	unix.SYS_REQUEST_KEY: "EPERM", unix.SYS_KEYCTL: "EPERM", unix.SYS_INIT_MODULE: "EPERM",
	unix.SYS_FINIT_MODULE: "EPERM", unix.SYS_DELETE_MODULE: "EPERM", unix.SYS_KEXEC_LOAD: "EPERM",
	unix.SYS_KEXEC_FILE_LOAD: "EPERM", unix.SYS_REBOOT: "EPERM", unix.SYS_SWAPON: "EPERM",
	unix.SYS_SWAPOFF: "EPERM", unix.SYS_ACCT: "EPERM", unix.SYS_QUOTACTL: "EPERM", unix.SYS_QUOTACTL_FD: "EPERM",
	unix.SYS_SYSLOG: "EPERM", unix.SYS_SETTIMEOFDAY: "EPERM", unix.SYS_CLOCK_SETTIME: "EPERM",
	unix.SYS_ADJTIMEX: "EPERM", unix.SYS_CLOCK_ADJTIME: "EPERM", unix.SYS_SETHOSTNAME: "EPERM",
	unix.SYS_SETDOMAINNAME: "EPERM", unix.SYS_VHANGUP: "EPERM", unix.SYS_SECCOMP: "EPERM",
	unix.SYS_PROCESS_MADVISE: "EPERM", unix.SYS_SCHED_SETATTR: "EPERM", unix.SYS_SCHED_SETSCHEDULER: "EPERM",
	unix.SYS_SPLICE: "EINVAL", unix.SYS_TEE: "EINVAL", unix.SYS_VMSPLICE: "EINVAL",
	unix.SYS_SETXATTR: "EOPNOTSUPP", unix.SYS_FSETXATTR: "EOPNOTSUPP", unix.SYS_REMOVEXATTR: "EOPNOTSUPP",
	unix.SYS_CLONE3: "ENOSYS", unix.SYS_OPEN_TREE: "ENOSYS", unix.SYS_MOVE_MOUNT: "ENOSYS",
	unix.SYS_FSOPEN: "ENOSYS", unix.SYS_FSCONFIG: "ENOSYS", unix.SYS_FSMOUNT: "ENOSYS", unix.SYS_FSPICK: "ENOSYS",
	unix.SYS_MOUNT_SETATTR: "ENOSYS", unix.SYS_IO_URING_SETUP: "ENOSYS", unix.SYS_IO_URING_ENTER: "ENOSYS",
	unix.SYS_IO_URING_REGISTER: "ENOSYS", unix.SYS_MEMFD_SECRET: "ENOSYS", unix.SYS_FUTEX_WAITV: "ENOSYS",
	unix.SYS_SENDMMSG: "ENOSYS", unix.SYS_RECVMMSG: "ENOSYS", unix.SYS_MBIND: "ENOSYS",
	unix.SYS_SET_MEMPOLICY: "ENOSYS", unix.SYS_MOVE_PAGES: "ENOSYS", unix.SYS_MIGRATE_PAGES: "ENOSYS",
	unix.SYS_NAME_TO_HANDLE_AT: "ENOSYS", unix.SYS_REMAP_FILE_PAGES: "ENOSYS",
}

// lastKnown is the last call of the newest table the profiles were made for;
// what comes after it is a call of a future kernel.
const lastKnown = 470

// A50, B16: no call of an escape succeeds, none gets another answer than the
// table says, and a call that nobody has heard of is absent.
func TestSweep(t *testing.T) {
	outside.unreached(t)
	l := newLab(t)
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			res := l.run(t, isolate.Policy{Profile: p, Wall: patience}, script(t, "kernel_sweep.c"))
			if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
				t.Fatalf("ended with %s %d %s", res.Reason, res.ExitCode, res.Detail)
			}
			got, passed := map[int]string{}, 0
			for _, a := range answersOf(string(res.Stdout.Kept)) {
				nr, err := strconv.Atoi(a.attempt)
				if err != nil {
					t.Fatal(err)
				}
				got[nr] = a.got
				if a.got != "ENOSYS" && a.got != "EPERM" {
					passed++
				}
				if nr > lastKnown && a.got != "ENOSYS" {
					t.Errorf("unheard-of call %d: %s, want ENOSYS", nr, a.got)
				}
				if a.got == "signal-31" {
					t.Errorf("native call %d kills", nr)
				}
			}
			for nr, want := range indicators {
				if got[nr] != want {
					t.Errorf("call %d: %s, want %s", nr, got[nr], want)
				}
			}
			if len(got) != 601 {
				t.Errorf("%d calls were tried, want 601", len(got))
			}
			t.Logf("%d of 601 numbers are neither absent nor EPERM", passed)
		})
	}
}

// A49, B4: the table of another architecture ends the program. Where the
// kernel itself has no 32-bit table, the same program dies outside too.
func TestForeignTables(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: no other architecture has a second table here")
	}
	l := newLab(t)
	t.Run("int 0x80", func(t *testing.T) { l.dies(t, "kernel_int80.c") })
	t.Run("32-bit program", func(t *testing.T) {
		if text, err := exec.Command("gcc", "-m32", "-nostdlib", "-static", "-x", "c", "-o", "/dev/null", "-").CombinedOutput(); err != nil && strings.Contains(string(text), "-m32") {
			t.Skipf("needs a gcc for 32 bits: %s", text)
		}
		l.dies(t, "kernel_i386.c")
	})
}

func (l *lab) dies(t *testing.T, name string) {
	c := script(t, name)
	var exit *exec.ExitError
	switch err := exec.Command(c.In[0].Source).Run(); {
	case err == nil:
	case errors.Is(err, unix.ENOEXEC), errors.As(err, &exit) && exit.ExitCode() < 0:
		t.Skipf("needs a kernel with the 32-bit table: %v", err)
	default:
		t.Fatalf("does not work outside: %v", err)
	}
	for _, p := range profiles {
		res := l.run(t, isolate.Policy{Profile: p}, c)
		if res.Reason != isolate.ReasonPolicy || res.Signal != int(unix.SIGSYS) || res.ExitCode != 128+int(unix.SIGSYS) {
			t.Errorf("%s: ended with %s, signal %d, code %d; want policy by SIGSYS", p, res.Reason, res.Signal, res.ExitCode)
		}
	}
}
