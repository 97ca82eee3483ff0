package netd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// confine gives up everything but sockets that are there and new ones of IP:
// no file, no program, no other process. It returns the layers that hold.
func confine() ([]string, error) {
	layers := []string{"no_new_privs"}
	// secrets and keys are in this memory
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot close the memory to others: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return nil, fmt.Errorf("cannot forbid cores: %w", err)
	}
	// without a rule for a path no path can be opened; BestEffort: on a kernel
	// without Landlock the filter alone holds, and Ready says so
	if err := landlock.V6.BestEffort().RestrictPaths(); err != nil {
		return nil, fmt.Errorf("cannot restrict paths: %w", err)
	}
	if err := landlock.V6.BestEffort().RestrictScoped(); err != nil {
		return nil, fmt.Errorf("cannot restrict signals: %w", err)
	}
	if landlocked() {
		layers = append(layers, "landlock")
	}
	if err := filter(); err != nil {
		return nil, err
	}
	return append(layers, "seccomp"), nil
}

// landlocked tells whether the kernel has Landlock.
func landlocked() bool {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && v > 0
}

// allowed are the system calls of the Go run time and of sockets.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_READV, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL,
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
	unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
	unix.SYS_PPOLL, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT, unix.SYS_BRK, unix.SYS_MREMAP,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_GETRANDOM, unix.SYS_UNAME, unix.SYS_MEMBARRIER, unix.SYS_RSEQ,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_SPLICE, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
}

// Offsets in struct seccomp_data.
const (
	offCall = 0
	offArch = 4
	offArg0 = 16
	offArg1 = 24
)

// program is the filter: the calls of the list, threads but no processes,
// sockets of IP. Another architecture's call ends the process; everything else
// is refused.
func program() ([]bpf.RawInstruction, error) {
	const allow, refuse, kill = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_KILL_PROCESS
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1},
		bpf.RetConstant{Val: kill},
		bpf.LoadAbsolute{Off: offCall, Size: 4},
	}
	// clone with CLONE_THREAD makes a thread; clone3 cannot be looked into, and
	// who gets ENOSYS takes clone
	p = append(p,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE, SkipFalse: 4},
		bpf.LoadAbsolute{Off: offArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1},
		bpf.RetConstant{Val: allow},
		bpf.RetConstant{Val: refuse},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipFalse: 5},
		bpf.LoadAbsolute{Off: offArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		bpf.RetConstant{Val: allow},
		// of all ioctl only how much there is to read
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_IOCTL, SkipFalse: 4},
		bpf.LoadAbsolute{Off: offArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCINQ, SkipFalse: 1},
		bpf.RetConstant{Val: allow},
		bpf.RetConstant{Val: refuse},
	)
	for _, nr := range append(moreCalls, allowed...) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1}, bpf.RetConstant{Val: allow})
	}
	return bpf.Assemble(append(p, bpf.RetConstant{Val: refuse}))
}

// filter loads the program for all threads.
func filter() error {
	raw, err := program()
	if err != nil {
		return fmt.Errorf("cannot assemble the filter: %w", err)
	}
	code := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		code = binary.NativeEndian.AppendUint16(code, i.Op)
		code = append(code, i.Jt, i.Jf)
		code = binary.NativeEndian.AppendUint32(code, i.K)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&code[0]))}
	// TSYNC puts every thread under the filter, and under no_new_privs
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("cannot load the filter: %w", errno)
	}
	if r != 0 {
		return errors.New("cannot load the filter: a thread could not be put under it")
	}
	return nil
}
