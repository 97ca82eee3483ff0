//go:build linux

package seccompprofile

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// Sets of profiles a special is for.
var (
	onlyStrict = []policy.Profile{policy.ProfileStrict}
	onlyCompat = []policy.Profile{policy.ProfileCompat}
	notStrict  = []policy.Profile{policy.ProfileDefault, policy.ProfileCompat}
	notCompat  = []policy.Profile{policy.ProfileDefault, policy.ProfileStrict}
)

// each allows a call when its int argument is one of the values.
func each(arg uint, values ...uint64) []rule {
	rules := make([]rule, 0, len(values))
	for _, v := range values {
		rules = append(rules, rule{[]cond{isInt(arg, v)}, pass})
	}
	return rules
}

// specials are the calls with conditions or with an answer of their own.
// They are built when they are asked for: most processes of this program, its
// re-executions among them, never do.
func specials() []special {
	return slices.Concat(processSpecials(), socketSpecials(), fileSpecials(), refusals())
}

// newNamespaces is CLONE_NEW{CGROUP,UTS,IPC,USER,PID,NET,NS}. CLONE_NEWTIME is
// not among them: in clone its bit belongs to the exit signal.
const newNamespaces = unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS

// futexCommand masks off FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME, as the
// kernel's FUTEX_CMD_MASK does.
const futexCommand = low32 &^ (128 | 256)

func processSpecials() []special {
	return []special{{
		calls:     "clone",
		why:       "threads and processes, but no new namespace: that is where kernel bugs become reachable",
		rules:     []rule{{[]cond{bits(0, newNamespaces, 0)}, pass}},
		otherwise: record(unix.EPERM),
	}, {
		calls: "futex",
		why: `all operations but those with priority inheritance, which have a record of kernel bugs
		(CVE-2014-3153, CVE-2026-43499) and no user in the survey`,
		rules: []rule{
			{[]cond{bits(1, futexCommand, 0)}, pass},  // FUTEX_WAIT
			{[]cond{bits(1, futexCommand, 1)}, pass},  // FUTEX_WAKE
			{[]cond{bits(1, futexCommand, 3)}, pass},  // FUTEX_REQUEUE
			{[]cond{bits(1, futexCommand, 4)}, pass},  // FUTEX_CMP_REQUEUE
			{[]cond{bits(1, futexCommand, 5)}, pass},  // FUTEX_WAKE_OP
			{[]cond{bits(1, futexCommand, 9)}, pass},  // FUTEX_WAIT_BITSET
			{[]cond{bits(1, futexCommand, 10)}, pass}, // FUTEX_WAKE_BITSET
		},
	}, {
		calls: "prctl",
		why: `only what concerns the caller itself; no second filter, which could answer socket in
		its stead and hide attempts from the record, no tracer, no memory map changes`,
		rules: each(0,
			unix.PR_SET_NAME, unix.PR_GET_NAME,
			unix.PR_SET_DUMPABLE, unix.PR_GET_DUMPABLE,
			unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG,
			unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS,
			unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK,
			unix.PR_SET_CHILD_SUBREAPER, unix.PR_GET_CHILD_SUBREAPER,
			unix.PR_SET_THP_DISABLE, unix.PR_GET_THP_DISABLE,
			unix.PR_SET_SPECULATION_CTRL, unix.PR_GET_SPECULATION_CTRL,
			unix.PR_SET_MDWE, unix.PR_GET_MDWE,
			unix.PR_SET_VMA, // names for anonymous mappings: malloc, the Go run time
			unix.PR_CAPBSET_READ, unix.PR_GET_SECCOMP, unix.PR_GET_TID_ADDRESS,
		),
		otherwise: errno(unix.EPERM),
	}, {
		calls: "personality",
		why:   "reading it, and the harmless kinds; no executable data, no fixed addresses",
		// PER_LINUX, PER_LINUX32, UNAME26, and the value that only reads.
		rules:     each(0, 0, 0x8, 0x20000, 0xffffffff),
		otherwise: errno(unix.EPERM),
	}, {
		calls: "prlimit64",
		why: `all limits but the core size, whose value 1 keeps the host's core handler away (core(5));
		only of the caller itself: the sandbox's init has the same user`,
		rules:     ofSelf(append(readCoreLimit(), each(1, limits...)...)),
		otherwise: errno(unix.EPERM),
	}, {
		calls: "sched_setaffinity",
		why: `of any process but the init: bound to a busy processor, or last in line, the init could
		not end the others when the time is up`,
		in:        notStrict,
		rules:     []rule{notOfInit(0)},
		otherwise: pass,
	}, {
		calls: "setpriority",
		why:   "as sched_setaffinity; the init is also among \"all of the user\"",
		in:    notStrict,
		rules: []rule{
			{[]cond{isInt(0, prioUser)}, errno(unix.EPERM)},
			notOfInit(1),
		},
		otherwise: pass,
	}, {
		calls: "ioprio_set",
		why:   "as setpriority",
		in:    onlyCompat,
		rules: []rule{
			{[]cond{isInt(0, ioprioUser)}, errno(unix.EPERM)},
			notOfInit(1),
		},
		otherwise: pass,
	}, {
		calls:     "mmap",
		why:       "no huge pages from the host's pool, which no memory limit covers",
		rules:     []rule{{[]cond{bits(3, unix.MAP_HUGETLB, unix.MAP_HUGETLB)}, errno(unix.ENOMEM)}},
		otherwise: pass,
	}, {
		calls:     "memfd_create",
		why:       "as mmap",
		in:        notStrict,
		rules:     []rule{{[]cond{bits(1, unix.MFD_HUGETLB, unix.MFD_HUGETLB)}, errno(unix.ENOMEM)}},
		otherwise: pass,
	}, {
		calls:     "setrlimit",
		why:       "all limits but the core size",
		rules:     each(0, limits...),
		otherwise: errno(unix.EPERM),
	}}
}

// prioUser and ioprioUser are "all processes of a user" of setpriority and
// ioprio_set (linux/resource.h, linux/ioprio.h).
const (
	prioUser   = 2
	ioprioUser = 3
)

// notOfInit refuses a call on process 1: its programs run as the same user as
// the sandbox's init, so only the filter keeps them off.
func notOfInit(arg uint) rule { return rule{[]cond{isInt(arg, 1)}, errno(unix.EPERM)} }

// limits are all resources of setrlimit but RLIMIT_CORE. They are listed, not
// written as "is not RLIMIT_CORE": that would be true for RLIMIT_CORE with
// garbage in the upper half, which the kernel does not look at.
var limits = []uint64{
	unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_STACK, unix.RLIMIT_RSS,
	unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE, unix.RLIMIT_MEMLOCK, unix.RLIMIT_AS,
	unix.RLIMIT_LOCKS, unix.RLIMIT_SIGPENDING, unix.RLIMIT_MSGQUEUE, unix.RLIMIT_NICE,
	unix.RLIMIT_RTPRIO, unix.RLIMIT_RTTIME,
}

func readCoreLimit() []rule {
	return []rule{{[]cond{isInt(1, unix.RLIMIT_CORE), isNull(2)}, pass}}
}

// ofSelf adds the condition that the process id is 0.
func ofSelf(rules []rule) []rule {
	out := make([]rule, len(rules))
	for i, r := range rules {
		out[i] = rule{append([]cond{isInt(0, 0)}, r.when...), r.do}
	}
	return out
}

// refusals are answered the same way whatever their arguments are.
func refusals() []special {
	return []special{{
		calls: `mount umount2 unshare setns pivot_root chroot`,
		why:   "the steps of leaving a container",
		// The record of these is what tells an attack from an accident.
		otherwise: record(unix.EPERM),
	}, {
		calls: `ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp bpf perf_event_open
		userfaultfd fanotify_init open_by_handle_at`,
		why:       "reach into other processes and files past their names, helpers of kernel exploits",
		otherwise: record(unix.EPERM),
	}, {
		calls:     `add_key request_key keyctl`,
		why:       "keyrings are not kept apart by namespaces, and had many bugs",
		otherwise: record(unix.EPERM),
	}, {
		calls: `init_module finit_module delete_module kexec_load kexec_file_load reboot swapon
		swapoff`,
		why:       "the machine itself",
		otherwise: record(unix.EPERM),
	}, {
		calls:     `iopl ioperm`,
		why:       "hardware",
		arch:      "amd64",
		otherwise: record(unix.EPERM),
	}, {
		calls: `acct quotactl quotactl_fd syslog settimeofday clock_settime adjtimex clock_adjtime
		sethostname setdomainname vhangup lookup_dcookie nfsservctl process_madvise`,
		why:       "privileged, tried by harmless programs too, so not recorded",
		otherwise: errno(unix.EPERM),
	}, {
		calls:     `modify_ldt uselib`,
		why:       "kernel surface for programs of another age",
		arch:      "amd64",
		otherwise: errno(unix.EPERM),
	}, {
		calls:     `seccomp`,
		why:       "a second filter could hide attempts from the record; filters also take kernel memory",
		otherwise: errno(unix.EPERM),
	}, {
		calls: `sched_setattr sched_setscheduler sched_setparam`,
		why:   "real-time starvation, and half of CVE-2026-43499",
		// EPERM is what a program without privilege gets for most of these anyway.
		otherwise: errno(unix.EPERM),
	}}
}
