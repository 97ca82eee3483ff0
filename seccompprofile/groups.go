//go:build linux

package seccompprofile

// groups are the calls that are allowed whatever their arguments are. Column
// strict is what a survey of CPython, Node, OpenJDK, Go, Rust, gcc, git and the
// shell tools was seen to call; standard is what ordinary programs use beyond
// that and what gives no reach outside the sandbox's own namespaces; compat is
// what containers usually allow.
//
// The calls the loader makes between loading the filter and execve are among
// them in every profile: sendmsg and the receiving calls (specials.go), read,
// write, ppoll, close, execve, exit_group, rt_sigprocmask.
var groups = []group{{
	name: "file contents",
	why:  "act on a descriptor the program already holds",
	strict: `read write readv writev pread64 pwrite64 lseek close close_range
		ftruncate fallocate fsync fdatasync flock fadvise64`,
	// copy_file_range and sendfile move file pages without a copy through the
	// program; strict has neither.
	standard: `preadv pwritev preadv2 pwritev2 truncate readahead sync_file_range syncfs sendfile copy_file_range`,
	// sync flushes every file system of the host; cachestat shows what others read.
	compat: `sync cachestat`,
}, {
	name: "opening and looking up files",
	why:  "the file view, not the filter, decides what there is to open",
	strict: `openat fstat newfstatat statx faccessat faccessat2 readlinkat getdents64 getcwd
		chdir fchdir statfs fstatfs fcntl dup dup3 pipe2`,
	standard: `openat2`,
}, {
	name: "changing the file tree",
	why: `only the workspace is writable; changing owners is allowed because git, gcc and go
		call fchown with their own id, and only mapped ids can succeed`,
	strict: `mkdirat unlinkat renameat renameat2 linkat symlinkat fchmod fchmodat fchmodat2
		fchown fchownat utimensat umask`,
}, {
	name:   "reading extended attributes",
	why:    "ls and cp read them; writing is refused (specials)",
	strict: `getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr`,
	compat: `getxattrat listxattrat`,
}, {
	name: "files, by their older names",
	why:  "the same operations by path alone, which only this architecture has",
	arch: "amd64",
	strict: `open creat stat lstat access readlink mkdir rmdir unlink rename link symlink
		chmod chown dup2 pipe`,
	standard: `lchown getdents utime utimes futimesat`,
}, {
	name:   "memory",
	why:    "the program's own address space, counted by the memory controller",
	strict: `munmap mprotect mremap madvise brk msync membarrier`,
	standard: `mincore mlock mlock2 munlock pkey_alloc pkey_free pkey_mprotect
		mseal`,
	compat: `mlockall munlockall map_shadow_stack`,
}, {
	name: "processes and threads",
	why: `the PID namespace bounds whom they reach, the pids controller how many there are;
		clone has a rule of its own (specials)`,
	strict: `execve exit exit_group wait4 waitid getpid getppid gettid set_tid_address
		set_robust_list rseq setpgid getpgid getsid setsid pidfd_open
		pidfd_send_signal`,
	standard: `execveat get_robust_list`,
	compat:   `process_mrelease`,
}, {
	name:   "processes and threads, by their older names",
	why:    "fork without flags; the thread pointer (arch_prctl)",
	arch:   "amd64",
	strict: `fork vfork getpgrp arch_prctl`,
}, {
	name:   "scheduling",
	why:    "reading; setting a policy is refused, and the init is out of reach (specials)",
	strict: `sched_yield sched_getaffinity`,
	standard: `getpriority getcpu sched_getattr sched_getparam
		sched_getscheduler sched_get_priority_max sched_get_priority_min
		sched_rr_get_interval`,
	compat: `ioprio_get`,
}, {
	name: "identity",
	why:  "reading; changing succeeds only to an id the program has already",
	strict: `getuid geteuid getgid getegid getgroups getresuid getresgid
		capget`,
	standard: `setuid setgid setreuid setregid setresuid setresgid setgroups setfsuid
		setfsgid capset`,
}, {
	name: "signals",
	why:  "the PID namespace bounds whom they reach",
	strict: `rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigpending
		rt_sigtimedwait sigaltstack kill tgkill restart_syscall`,
	standard: `tkill rt_sigqueueinfo rt_tgsigqueueinfo signalfd4`,
}, {
	name:     "signals, by their older names",
	why:      "older forms that only this architecture has",
	arch:     "amd64",
	strict:   `alarm pause`,
	standard: `signalfd`,
}, {
	name: "time",
	why:  "reading clocks, sleeping, timers; setting a clock is refused (specials)",
	strict: `clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday times
		getitimer setitimer timer_create timer_settime timer_delete`,
	standard: `timer_gettime timer_getoverrun timerfd_create timerfd_settime timerfd_gettime`,
}, {
	name:   "time, by its older name",
	why:    "older form that only this architecture has",
	arch:   "amd64",
	strict: `time`,
}, {
	name:   "waiting for descriptors",
	why:    "event loops",
	strict: `ppoll pselect6 epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 eventfd2`,
	// Instances and watches are bounded inside by sysctls of the user namespace.
	standard: `inotify_init1 inotify_add_watch inotify_rm_watch`,
}, {
	name:     "waiting for descriptors, by their older names",
	why:      "older forms that only this architecture has",
	arch:     "amd64",
	strict:   `poll select epoll_wait`,
	standard: `epoll_create eventfd inotify_init`,
}, {
	name: "sockets that exist",
	why: `what kinds can be created is decided by socket and socketpair, where they can lead by
		the network namespace (specials)`,
	strict: `bind listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown`,
}, {
	name:   "facts and random numbers",
	why:    "run-time libraries ask at start",
	strict: `uname sysinfo getrandom getrusage getrlimit`,
}, {
	name: "System V and POSIX IPC",
	why:  "own IPC namespace; databases use it, the survey's programs do not",
	compat: `shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv
		msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`,
}, {
	name:   "asynchronous file operations",
	why:    "older interface of databases",
	compat: `io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents`,
}, {
	name:   "Landlock",
	why:    "only ever restricts the caller",
	compat: `landlock_create_ruleset landlock_add_rule landlock_restrict_self`,
}}
