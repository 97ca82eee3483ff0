//go:build linux && cgo && seccomp

package seccompprofile

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	seccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// outcome is written by hand in the tests below, so that they do not repeat
// what the tables say.
const (
	allowed  = unix.SECCOMP_RET_ALLOW
	notified = unix.SECCOMP_RET_USER_NOTIF
	killed   = unix.SECCOMP_RET_KILL_PROCESS
)

func refused(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

const garbage = 0xdead_beef << 32 // in the upper half of a register

// a is the arguments of a call.
func a(args ...uint64) (v [6]uint64) { copy(v[:], args); return v }

var all = profiles[:]

// cases is what every special must answer. The program that is tested is the
// one that will be loaded.
var cases = []struct {
	in   []policy.Profile
	call string
	args [6]uint64
	want uint32
}{
	// Families. The first two lines of B3.
	{all, "socket", a(unix.AF_INET|1<<32, unix.SOCK_STREAM), notified},
	{all, "socket", a(unix.AF_UNIX|1<<32, unix.SOCK_STREAM), notified},
	{all, "socket", a(unix.AF_UNIX, unix.SOCK_STREAM), allowed},
	{all, "socket", a(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), allowed},
	{all, "socket", a(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK), allowed},
	{all, "socket", a(unix.AF_UNIX, unix.SOCK_RAW), notified},
	{all, "socket", a(unix.AF_UNIX, 0), notified},
	{all, "socket", a(unix.AF_UNSPEC, unix.SOCK_STREAM), notified},
	{all, "socket", a(unix.AF_NETLINK, unix.SOCK_RAW), notified},
	{all, "socket", a(unix.AF_ALG, unix.SOCK_SEQPACKET), notified},
	{all, "socket", a(unix.AF_VSOCK, unix.SOCK_STREAM), notified},
	{all, "socket", a(^uint64(0), unix.SOCK_STREAM), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP), notified},
	{notStrict, "socket", a(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_DGRAM), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), notified},
	{notStrict, "socket", a(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_TCP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_UDP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_PACKET), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM|0x10), notified},
	// The kernel does not look at the upper half of type and protocol.
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_RAW|garbage), notified},
	{notStrict, "socket", a(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP|garbage), notified},
	{onlyStrict, "socket", a(unix.AF_INET, unix.SOCK_STREAM), notified},
	{onlyStrict, "socket", a(unix.AF_INET6, unix.SOCK_DGRAM), notified},
	{all, "socketpair", a(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC), allowed},
	{all, "socketpair", a(unix.AF_TIPC, unix.SOCK_STREAM), notified},
	{all, "socketpair", a(unix.AF_UNIX|1<<32, unix.SOCK_STREAM), notified},

	{notStrict, "connect", a(3, 0x7fff0000, 16), notified},
	{onlyStrict, "connect", a(3, 0x7fff0000, 16), allowed},
	{all, "sendto", a(3, 0x7fff0000, 1, 0, 0, 0), allowed},
	{all, "sendto", a(3, 0x7fff0000, 1, unix.MSG_NOSIGNAL, 0, 99), allowed},
	{notStrict, "sendto", a(3, 0x7fff0000, 1, 0, 0x7fff1000, 16), notified},
	{notStrict, "sendto", a(3, 0x7fff0000, 1, 0, 1<<32, 16), notified},
	{notStrict, "sendto", a(3, 0x7fff0000, 1, garbage, 1, 0), notified},
	{onlyStrict, "sendto", a(3, 0x7fff0000, 1, 0, 0x7fff1000, 16), allowed},
	{all, "sendto", a(3, 0x7fff0000, 1, unix.MSG_OOB, 0, 0), refused(unix.EOPNOTSUPP)},
	{all, "sendto", a(3, 0x7fff0000, 1, unix.MSG_OOB|garbage, 0x7fff1000, 16), refused(unix.EOPNOTSUPP)},
	{all, "recvfrom", a(3, 0x7fff0000, 1, unix.MSG_OOB|unix.MSG_DONTWAIT), refused(unix.EOPNOTSUPP)},
	{all, "recvfrom", a(3, 0x7fff0000, 1, unix.MSG_PEEK), allowed},
	{all, "sendmsg", a(3, 0x7fff0000, unix.MSG_OOB), refused(unix.EOPNOTSUPP)},
	{all, "sendmsg", a(3, 0x7fff0000, unix.MSG_NOSIGNAL), allowed},
	{all, "recvmsg", a(3, 0x7fff0000, unix.MSG_OOB|unix.MSG_PEEK), refused(unix.EOPNOTSUPP)},
	{all, "recvmsg", a(3, 0x7fff0000, unix.MSG_CMSG_CLOEXEC), allowed},
	{all, "sendmmsg", a(3, 0x7fff0000, 1), refused(unix.ENOSYS)},
	{all, "recvmmsg", a(3, 0x7fff0000, 1), refused(unix.ENOSYS)},

	{all, "clone", a(uint64(unix.SIGCHLD)), allowed},
	{all, "clone", a(unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | uint64(unix.SIGCHLD)), allowed},
	{all, "clone", a(0x3d0f00), allowed}, // pthread_create
	{all, "clone", a(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), notified},
	{all, "clone", a(unix.CLONE_NEWNET), notified},
	{all, "clone", a(unix.CLONE_NEWNS), notified},
	{all, "clone", a(unix.CLONE_NEWPID), notified},
	{all, "clone", a(unix.CLONE_NEWIPC), notified},
	{all, "clone", a(unix.CLONE_NEWUTS), notified},
	{all, "clone", a(unix.CLONE_NEWCGROUP | garbage), notified},
	{all, "clone3", a(0x7fff0000, 88), refused(unix.ENOSYS)},

	{all, "futex", a(0x1000, 0), allowed},
	{all, "futex", a(0x1000, 128|1), allowed},
	{all, "futex", a(0x1000, 128|256|9), allowed},
	{all, "futex", a(0x1000, 1|garbage), allowed},
	{all, "futex", a(0x1000, 6), refused(unix.ENOSYS)},              // LOCK_PI
	{all, "futex", a(0x1000, 128|7), refused(unix.ENOSYS)},          // UNLOCK_PI
	{all, "futex", a(0x1000, 8), refused(unix.ENOSYS)},              // TRYLOCK_PI
	{all, "futex", a(0x1000, 128|256|11), refused(unix.ENOSYS)},     // WAIT_REQUEUE_PI
	{all, "futex", a(0x1000, 128|12), refused(unix.ENOSYS)},         // CMP_REQUEUE_PI
	{all, "futex", a(0x1000, 13), refused(unix.ENOSYS)},             // LOCK_PI2
	{all, "futex", a(0x1000, 12|garbage), refused(unix.ENOSYS)},     // upper half
	{all, "futex", a(0x1000, 0x8000_0000|12), refused(unix.ENOSYS)}, // sign bit
	{all, "futex_waitv", a(0x1000, 1), refused(unix.ENOSYS)},
	{all, "sched_setattr", a(0, 0x1000), refused(unix.EPERM)},
	{all, "sched_setscheduler", a(0, 1, 0x1000), refused(unix.EPERM)},
	{all, "sched_setparam", a(0, 0x1000), refused(unix.EPERM)},
	{all, "sched_getaffinity", a(), allowed},
	{notStrict, "sched_setaffinity", a(), allowed},

	{all, "ioctl", a(0, unix.TCGETS), allowed},
	{all, "ioctl", a(0, unix.TCGETS|garbage), allowed},
	{all, "ioctl", a(0, unix.TIOCGPTN), allowed},
	{all, "ioctl", a(0, unix.TIOCGPTN|0xffff_ffff<<32), allowed}, // an int that was sign extended
	{all, "ioctl", a(0, unix.TIOCSTI), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.TIOCSTI|garbage), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.TIOCSTI|1<<32), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.TIOCLINUX|1<<32), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.TIOCCONS), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.TIOCSETD), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.FICLONE), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.FS_IOC_SETFLAGS), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, 0), refused(unix.ENOTTY)},
	{all, "ioctl", a(0, unix.SIOCSIFFLAGS), refused(unix.ENOTTY)},
	{notCompat, "ioctl", a(0, unix.SIOCGIFCONF), refused(unix.ENOTTY)},
	{onlyCompat, "ioctl", a(0, unix.SIOCGIFCONF), allowed},

	{all, "prctl", a(unix.PR_SET_NAME), allowed},
	{all, "prctl", a(unix.PR_SET_VMA), allowed},
	{all, "prctl", a(unix.PR_GET_SECCOMP), allowed},
	{all, "prctl", a(unix.PR_SET_SECCOMP, 2), refused(unix.EPERM)},
	{all, "prctl", a(unix.PR_SET_SECCOMP|garbage, 2), refused(unix.EPERM)},
	{all, "prctl", a(unix.PR_SET_MM), refused(unix.EPERM)},
	{all, "prctl", a(unix.PR_SET_PTRACER), refused(unix.EPERM)},
	{all, "prctl", a(unix.PR_SCHED_CORE), refused(unix.EPERM)},
	{all, "prctl", a(0), refused(unix.EPERM)},
	{all, "seccomp", a(unix.SECCOMP_SET_MODE_FILTER), refused(unix.EPERM)},

	{all, "personality", a(0), allowed},
	{all, "personality", a(8), allowed},
	{all, "personality", a(0x20000), allowed},
	{all, "personality", a(0xffffffff), allowed},
	{all, "personality", a(0x40000), refused(unix.EPERM)},  // ADDR_NO_RANDOMIZE
	{all, "personality", a(0x400000), refused(unix.EPERM)}, // READ_IMPLIES_EXEC
	{all, "personality", a(0x400000 | garbage), refused(unix.EPERM)},

	// Two conditions on two arguments must both hold (T4), and "not
	// RLIMIT_CORE" must not be true of RLIMIT_CORE with garbage above it.
	{all, "prlimit64", a(0, unix.RLIMIT_CORE, 0, 0x1000), allowed},
	{all, "prlimit64", a(0, unix.RLIMIT_CORE, 0x1000, 0), refused(unix.EPERM)},
	{all, "prlimit64", a(0, unix.RLIMIT_CORE|garbage, 0x1000, 0), refused(unix.EPERM)},
	{all, "prlimit64", a(0, unix.RLIMIT_CORE, 1<<32, 0), refused(unix.EPERM)},
	{all, "prlimit64", a(0, unix.RLIMIT_NOFILE, 0x1000, 0), allowed},
	{all, "prlimit64", a(0, unix.RLIMIT_NOFILE, 0, 0x1000), allowed},
	{all, "prlimit64", a(0, 16, 0, 0x1000), refused(unix.EPERM)},
	{all, "prlimit64", a(7, unix.RLIMIT_NOFILE, 0x1000, 0), refused(unix.EPERM)},
	{all, "prlimit64", a(1, unix.RLIMIT_NPROC, 0x1000, 0), refused(unix.EPERM)},
	{all, "prlimit64", a(7, unix.RLIMIT_CORE, 0, 0x1000), refused(unix.EPERM)},
	{notStrict, "sched_setaffinity", a(0, 8, 0x1000), allowed},
	{notStrict, "sched_setaffinity", a(7, 8, 0x1000), allowed},
	{notStrict, "sched_setaffinity", a(1, 8, 0x1000), refused(unix.EPERM)},
	{notStrict, "sched_setaffinity", a(1|garbage, 8, 0x1000), refused(unix.EPERM)},
	{notStrict, "setpriority", a(0, 0, 19), allowed},
	{notStrict, "setpriority", a(0, 7, 19), allowed},
	{notStrict, "setpriority", a(0, 1, 19), refused(unix.EPERM)},
	{notStrict, "setpriority", a(1, 1, 19), refused(unix.EPERM)},
	{notStrict, "setpriority", a(2, 0, 19), refused(unix.EPERM)},
	{notStrict, "setpriority", a(2|garbage, 0, 19), refused(unix.EPERM)},
	{onlyCompat, "ioprio_set", a(1, 0, 0), allowed},
	{onlyCompat, "ioprio_set", a(1, 1, 0), refused(unix.EPERM)},
	{onlyCompat, "ioprio_set", a(3, 0, 0), refused(unix.EPERM)},
	{all, "mmap", a(0, 4096, 3, 0x22, 0, 0), allowed},
	{all, "mmap", a(0, 4096, 3, 0x22|unix.MAP_HUGETLB, 0, 0), refused(unix.ENOMEM)},
	{all, "mmap", a(0, 4096, 3, 0x22|unix.MAP_HUGETLB|21<<26, 0, 0), refused(unix.ENOMEM)},
	{notStrict, "memfd_create", a(0x1000, 1), allowed},
	{notStrict, "memfd_create", a(0x1000, unix.MFD_HUGETLB|1), refused(unix.ENOMEM)},
	{all, "setrlimit", a(unix.RLIMIT_NOFILE, 0x1000), allowed},
	{all, "setrlimit", a(unix.RLIMIT_CORE, 0x1000), refused(unix.EPERM)},
	{all, "setrlimit", a(unix.RLIMIT_CORE|garbage, 0x1000), refused(unix.EPERM)},

	{all, "splice", a(), refused(unix.EINVAL)},
	{all, "vmsplice", a(), refused(unix.EINVAL)},
	{all, "tee", a(), refused(unix.EINVAL)},
	{notStrict, "sendfile", a(), allowed},
	{notStrict, "copy_file_range", a(), allowed},
	{onlyStrict, "sendfile", a(), refused(unix.EINVAL)},
	{onlyStrict, "copy_file_range", a(), refused(unix.ENOSYS)},
	{all, "setxattr", a(), refused(unix.EOPNOTSUPP)},
	{all, "setxattrat", a(), refused(unix.EOPNOTSUPP)},
	{all, "getxattr", a(), allowed},
	{all, "fchown", a(1, 0, 0), allowed},
	{notStrict, "mknodat", a(0, 1, unix.S_IFIFO|0o600), allowed},
	{notStrict, "mknodat", a(0, 1, unix.S_IFCHR|0o600), refused(unix.EPERM)},
	{notStrict, "mknodat", a(0, 1, unix.S_IFBLK|0o600|garbage), refused(unix.EPERM)},
	{onlyStrict, "mknodat", a(0, 1, unix.S_IFIFO|0o600), refused(unix.ENOSYS)},

	{all, "io_uring_setup", a(), refused(unix.ENOSYS)},
	{all, "fsopen", a(), refused(unix.ENOSYS)},
	{all, "open_tree", a(), refused(unix.ENOSYS)},
	{all, "memfd_secret", a(), refused(unix.ENOSYS)},
	{notCompat, "shmget", a(), refused(unix.ENOSYS)},
	{onlyCompat, "shmget", a(), allowed},
	{all, "syslog", a(), refused(unix.EPERM)},
	{all, "clock_settime", a(), refused(unix.EPERM)},
}

func TestSpecials(t *testing.T) {
	for _, c := range cases {
		nr := number(t, c.call)
		for _, p := range c.in {
			if got := returned(t, p, call{nr: nr, arch: auditArch[runtime.GOARCH], args: c.args}); got != c.want {
				t.Errorf("%v: %s(%#x) gives %#x, want %#x", p, c.call, c.args, got, c.want)
			}
		}
	}
}

// TestEscapes has the calls an attack begins with: recorded, whatever the
// arguments are.
func TestEscapes(t *testing.T) {
	const names = `mount umount2 unshare setns pivot_root chroot ptrace process_vm_readv
		process_vm_writev pidfd_getfd kcmp bpf perf_event_open userfaultfd fanotify_init
		open_by_handle_at add_key request_key keyctl init_module finit_module delete_module
		kexec_load kexec_file_load reboot swapon swapoff`
	for _, name := range strings.Fields(names) {
		for _, p := range profiles {
			for _, args := range [][6]uint64{a(), a(1, 1, 1, 1, 1, 1), a(garbage, garbage, garbage)} {
				if got := returned(t, p, call{nr: number(t, name), arch: auditArch[runtime.GOARCH], args: args}); got != notified {
					t.Errorf("%v: %s(%#x) gives %#x, want a notification", p, name, args, got)
				}
			}
			if f, _ := Compile(p); !slices.Contains(f.Notifies, name) {
				t.Errorf("%v: Notifies has no %q", p, name)
			}
		}
	}
}

// TestLoader has the calls the loader makes after the filter is on.
func TestLoader(t *testing.T) {
	for _, name := range strings.Fields(unnotifiable) {
		for _, p := range profiles {
			if got := returned(t, p, call{nr: number(t, name), arch: auditArch[runtime.GOARCH], args: a(3, 0x7fff0000, 0, 0x40, 0, 0)}); got != allowed {
				t.Errorf("%v: %s gives %#x, want it to be allowed", p, name, got)
			}
		}
	}
}

// TestForeign: i386 (int 0x80) and x32 calls end the process, whichever they
// are (A49, B4).
func TestForeign(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64")
	}
	for _, p := range profiles {
		for nr := range uint32(highestCall) {
			for _, c := range []call{
				{nr: nr, arch: unix.AUDIT_ARCH_I386},
				{nr: nr | x32, arch: unix.AUDIT_ARCH_X86_64},
				{nr: nr | x32, arch: unix.AUDIT_ARCH_X86_64, args: a(1, 1)},
				{nr: nr, arch: unix.AUDIT_ARCH_AARCH64},
			} {
				if got := returned(t, p, c); got != killed {
					t.Fatalf("%v: call %+v gives %#x, want the process killed", p, c, got)
				}
			}
		}
	}
}

// TestUnknownCalls: what no table names, to the end of the number space.
func TestUnknownCalls(t *testing.T) {
	for _, nr := range []uint32{386, 400, 423, 472, 511, 512, 547, 1000, 0x3fff_ffff, 0xffff_ffff} {
		for _, p := range profiles {
			if got := returned(t, p, call{nr: nr, arch: auditArch[runtime.GOARCH]}); got != refused(unix.ENOSYS) {
				t.Errorf("%v: call %d gives %#x, want ENOSYS", p, nr, got)
			}
		}
	}
}

// TestOrder: strict is within default, default within compat.
func TestOrder(t *testing.T) {
	narrow := []policy.Profile{policy.ProfileStrict, policy.ProfileDefault}
	wide := []policy.Profile{policy.ProfileDefault, policy.ProfileCompat}
	for i := range narrow {
		for nr := range uint32(highestCall) {
			c := call{nr: nr, arch: auditArch[runtime.GOARCH]}
			n, w := returned(t, narrow[i], c), returned(t, wide[i], c)
			// connect is allowed in strict because it can reach nothing there.
			if n == allowed && w != allowed && nr != unix.SYS_CONNECT {
				t.Errorf("call %d is allowed in %v, %#x in %v", nr, narrow[i], w, wide[i])
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for p, within := range map[policy.Profile][2]int{
		policy.ProfileStrict:  {140, 175},
		policy.ProfileDefault: {205, 240},
		policy.ProfileCompat:  {260, 300},
	} {
		f, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if f.Allowed < within[0] || f.Allowed > within[1] {
			t.Errorf("%v allows %d calls, want %d to %d", p, f.Allowed, within[0], within[1])
		}
		if n := len(f.BPF) / instructionSize; n > 256 {
			t.Errorf("%v has %d instructions, which every sandbox pays for", p, n)
		}
	}
}

func number(t *testing.T, name string) uint32 {
	t.Helper()
	nr, err := seccomp.GetSyscallFromName(name)
	if err == nil && nr >= 0 {
		return uint32(nr)
	}
	n, ok := numbers[name]
	if !ok {
		t.Fatalf("cannot number %q", name)
	}
	return uint32(n)
}

// program is decoded once per profile.
var program = func() func(t *testing.T, p policy.Profile) []instruction {
	cache := make(map[policy.Profile][]instruction)
	return func(t *testing.T, p policy.Profile) []instruction {
		if prog, ok := cache[p]; ok {
			return prog
		}
		f, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := decode(f.BPF)
		if err != nil {
			t.Fatal(err)
		}
		cache[p] = prog
		return prog
	}
}()

func returned(t *testing.T, p policy.Profile, c call) uint32 {
	t.Helper()
	got, err := run(program(t, p), &c)
	if err != nil {
		t.Fatal(fmt.Errorf("%v: %w", p, err))
	}
	return got
}
