package hostile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

var privilegeDenials = []attack{{
	script: "priv_namespaces.c", cases: "A46 B17", layer: byRecorder + "; " + byInit,
	attempt: "new namespaces of every kind by unshare, clone and clone3; init's by setns",
	source:  "sunwalker unshare, deepce nsenter",
	answers: eachKind(`
		unshare KIND: EPERM
		clone KIND: EPERM
		clone with an upper half KIND: EPERM
		clone3 KIND: ENOSYS
		setns KIND: EPERM
		open of init's KIND: EACCES`) + `
		unshare of everything: EPERM
		unshare of the files: EPERM
		setns to init by pidfd: EPERM
		nsfs handle: EPERM`,
	recorded: map[string]int64{"unshare": 10, "clone": 14, "setns": 9, "open_by_handle_at": 1},
}, {
	script: "priv_clone3.c", cases: "A47", layer: byFilter,
	attempt: "clone3, whose flags no filter sees", source: "moby #42680",
	answers: "clone3: ENOSYS\nthread: ok",
}, {
	script: "priv_mount.c", cases: "B16 A50", layer: byRecorder,
	attempt: "mount, umount, pivot_root, chroot and the new mount calls",
	source:  "runc mask.bats, CDK mount-*",
	answers: `
		mount proc: EPERM
		mount sysfs: EPERM
		mount tmpfs: EPERM
		mount cgroup: EPERM
		mount cgroup2: EPERM
		mount overlay: EPERM
		mount debugfs: EPERM
		bind: EPERM
		remount the root writable: EPERM
		make the root shared: EPERM
		move /proc: EPERM
		umount /proc: EPERM
		umount a mask: EPERM
		umount the workspace: EPERM
		pivot_root: EPERM
		chroot: EPERM
		open_tree: ENOSYS
		move_mount: ENOSYS
		fsopen: ENOSYS
		fsconfig: ENOSYS
		fsmount: ENOSYS
		fspick: ENOSYS
		mount_setattr: ENOSYS
		statmount: ENOSYS
		listmount: ENOSYS
		open_tree_attr: ENOSYS
		listns: ENOSYS
		swapon: EPERM
		quotactl: EPERM`,
	recorded: map[string]int64{"mount": 11, "umount2": 3, "pivot_root": 1, "chroot": 1, "swapon": 1},
}, {
	script: "priv_machine.c", arch: "amd64", cases: "A50", layer: byRecorder,
	attempt: "modules, kexec, reboot, clocks, host name, kernel log, accounting, I/O ports",
	source:  "sandlock seccomp tests, isolate 2.4",
	answers: `
		init_module: EPERM
		finit_module: EPERM
		delete_module: EPERM
		kexec_load: EPERM
		kexec_file_load: EPERM
		reboot: EPERM
		settimeofday: EPERM
		clock_settime: EPERM
		adjtimex: EPERM
		clock_adjtime: EPERM
		sethostname: EPERM
		setdomainname: EPERM
		syslog: EPERM
		acct: EPERM
		vhangup: EPERM
		iopl: EPERM
		ioperm: EPERM`,
	recorded: map[string]int64{"init_module": 1, "finit_module": 1, "delete_module": 1, "kexec_load": 1,
		"kexec_file_load": 1, "reboot": 1, "iopl": 1, "ioperm": 1},
}, {
	script: "priv_reach.c", cases: "A50 B29", layer: byRecorder,
	attempt: "ptrace, process_vm_*, pidfd_getfd and kcmp of init and of a child",
	source:  "CDK check-ptrace",
	answers: `
		ptrace attach to init: EPERM
		ptrace seize of init: EPERM
		ptrace attach to a child: EPERM
		ptrace traceme: EPERM
		process_vm_readv of init: EPERM
		process_vm_readv of a child: EPERM
		process_vm_writev of init: EPERM
		process_vm_writev of a child: EPERM
		pidfd_getfd of init: EPERM
		pidfd_getfd of a child: EPERM
		kcmp with init: EPERM
		process_madvise of init: EPERM
		move_pages of init: ENOSYS
		migrate_pages of init: ENOSYS`,
	recorded: map[string]int64{"ptrace": 4, "process_vm_readv": 2, "process_vm_writev": 2, "pidfd_getfd": 2, "kcmp": 1},
}, {
	script: "priv_kernel.c", arch: "amd64", cases: "A50", layer: byRecorder,
	attempt: "bpf, perf, userfaultfd, io_uring, keyrings, fanotify, memory policies, personalities",
	source:  "sandlock seccomp tests, isolate 2.4",
	answers: `
		bpf: EPERM
		perf_event_open: EPERM
		userfaultfd: EPERM
		userfaultfd, user faults only: EPERM
		/dev/userfaultfd: ENOENT
		io_uring_setup: ENOSYS
		io_uring_enter: ENOSYS
		io_uring_register: ENOSYS
		add_key: EPERM
		request_key: EPERM
		keyctl, session keyring: EPERM
		keyctl, join a session by name: EPERM
		fanotify_init: EPERM
		lookup_dcookie: EPERM
		memfd_secret: ENOSYS
		mbind: ENOSYS
		set_mempolicy: ENOSYS
		remap_file_pages: ENOSYS
		lsm_list_modules: ENOSYS
		modify_ldt: EPERM
		personality, fixed addresses: EPERM
		personality, executable data: EPERM
		personality, page zero: EPERM
		page zero by mmap: EPERM`,
	recorded: map[string]int64{"bpf": 1, "perf_event_open": 1, "userfaultfd": 2, "add_key": 1, "request_key": 1,
		"keyctl": 2, "fanotify_init": 1},
}, {
	script: "priv_filter.c", cases: "A50", layer: byFilter,
	attempt: "a filter of its own, prctl beyond the harmless",
	source:  "filters that answer in the record's stead",
	answers: `
		seccomp filter: EPERM
		seccomp filter with a listener: EPERM
		seccomp strict mode: EPERM
		filter by prctl: EPERM
		filter by prctl with an upper half: EPERM
		PR_SET_MM: EPERM
		PR_SET_PTRACER: EPERM
		PR_SCHED_CORE: EPERM
		PR_SET_KEEPCAPS: EPERM
		PR_SET_SECUREBITS: EPERM
		PR_CAP_AMBIENT_RAISE: EPERM
		PR_SET_SYSCALL_USER_DISPATCH: EPERM
		PR_SET_IO_FLUSHER: EPERM
		PR_SET_NO_NEW_PRIVS off: EINVAL`,
}, {
	script: "priv_ids.c", cases: "B14 A51", layer: byCaps + "; " + byUserNS,
	says:    "all sets 0; `EPERM`, `EINVAL`; strict: `ENOSYS`",
	attempt: "capabilities, user and group 0, before and after an exec",
	source:  "runc TestProcessEmptyCaps, CVE-2022-29162",
	answers: `
		before, CapInh: 0000000000000000
		before, CapPrm: 0000000000000000
		before, CapEff: 0000000000000000
		before, CapBnd: 0000000000000000
		before, CapAmb: 0000000000000000
		before, NoNewPrivs: 1
		before, Seccomp: 2
		before, users and groups: 1000 1000 1000, 1000 1000 1000
		capset: EPERM
		setuid 0: EINVAL
		setgid 0: EINVAL
		setresuid 0: EINVAL
		setfsuid 0 changes it: EPERM
		setgroups: EPERM
		chown to 0: EINVAL
		after exec, CapInh: 0000000000000000
		after exec, CapPrm: 0000000000000000
		after exec, CapEff: 0000000000000000
		after exec, CapBnd: 0000000000000000
		after exec, CapAmb: 0000000000000000
		after exec, NoNewPrivs: 1
		after exec, Seccomp: 2
		after exec, users and groups: 1000 1000 1000, 1000 1000 1000`,
	strict: `
		capset: ENOSYS
		setuid 0: ENOSYS
		setgid 0: ENOSYS
		setresuid 0: ENOSYS
		setgroups: ENOSYS`,
}, {
	script: "priv_chroot.c", cases: "B18", layer: byRecorder + "; " + byView,
	says:    "`EPERM`, the own root, `ENOENT`",
	attempt: "out of the root by chroot, a held directory, '..' and magic links",
	source:  "the chroot break-out, CVE-2024-21626",
	answers: `
		chroot to leave it by a held directory: EPERM
		a hundred times up: own root
		up from a held directory: own root
		up from /proc/self/root: own root
		up from /proc/self/cwd: own root
		up from the root of the mounts: own root
		the workspace's own tmpfs: ENOENT
		the host's password file, from a held directory: ENOENT
		the root of the cell's staging: ENOENT
		the root before the exchange: ENOENT`,
	recorded: map[string]int64{"chroot": 1},
}, {
	script: "priv_handle.c", cases: "B24", layer: byRecorder,
	attempt: "a guessed file handle", source: "CDK cap-dac-read-search",
	answers: `
		open_by_handle_at of inode 2: EPERM
		open_by_handle_at from the working directory: EPERM
		name_to_handle_at: ENOSYS`,
	recorded: map[string]int64{"open_by_handle_at": 2},
}, {
	script: "priv_tty.c", cases: "A53 B32", layer: byFilter + "; " + byView,
	attempt: "TIOCSTI and TIOCLINUX, with upper halves too; terminals of the host",
	source:  "CVE-2017-5226, CVE-2019-10063, CVE-2023-28100",
	answers: ttyAnswers,
}, {
	script: "priv_device.c", cases: "A54", layer: byFilter + "; " + byView,
	attempt: "mknod, devices beyond null, zero, full, random, urandom and tty",
	source:  "sunwalker dev, srt tests",
	answers: `
		mknod of a disk: EPERM
		mknod of memory: EPERM
		mknod of null: EPERM
		mknod of a whiteout: EPERM
		mknodat of a disk: EPERM
		mknod of a pipe: ok` + absentDevices(),
	strict: `
		mknod of a disk: ENOSYS
		mknod of memory: ENOSYS
		mknod of null: ENOSYS
		mknod of a whiteout: ENOSYS
		mknodat of a disk: ENOSYS
		mknod of a pipe: ENOSYS`,
}, {
	script: "priv_sched.c", cases: "B34", layer: byFilter,
	attempt: "futexes with priority inheritance, real-time scheduling",
	source:  "CVE-2026-43499, CVE-2014-3153",
	answers: piFutexes("", ", private", ", real-time clock") + `
		futex LOCK_PI with an upper half: ENOSYS
		futex2 call 454: ENOSYS
		futex2 call 455: ENOSYS
		futex2 call 456: ENOSYS
		futex_waitv: ENOSYS
		sched_setscheduler FIFO: EPERM
		sched_setparam: EPERM
		sched_setattr deadline: EPERM
		a better niceness: EACCES
		a thread with an ordinary mutex: ok`,
	strict: "a better niceness: ENOSYS",
}, {
	script: "priv_rlimits.c", cases: "B36", layer: byFilter + "; " + byRlimit,
	says:    "core 1 and 1; `EPERM`",
	attempt: "core files for a core handler of the host, limits above the hard ones",
	source:  "core(5)",
	answers: `
		core, soft and hard: 1 1
		core 0: EPERM
		core 0, then back to 1: EPERM
		core unlimited: EPERM
		core with an upper half: EPERM
		core by setrlimit: EPERM
		core by setrlimit with an upper half: EPERM
		more files than the hard limit: EPERM
		more processes: EPERM
		larger files: EPERM
		message queues: EPERM
		real-time priority: EPERM
		locked memory: EPERM
		a crash: no core`,
}}

// eachKind repeats lines for every kind of namespace; clone has no time namespace.
func eachKind(lines string) string {
	var b strings.Builder
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		for _, line := range strings.Split(lines, "\n") {
			if kind == "time" && strings.HasPrefix(strings.TrimSpace(line), "clone ") {
				continue
			}
			b.WriteString(strings.ReplaceAll(line, "KIND", kind) + "\n")
		}
	}
	return b.String()
}

func absentDevices() string {
	var b strings.Builder
	for _, d := range strings.Fields(`mem kmsg port sda vda nvme0n1 loop-control loop0 fuse kvm vhost-vsock vsock rtc0
		hpet input/event0 dri/card0 mapper/control uinput snd/timer mqueue hugepages net/tun cpu_dma_latency`) {
		fmt.Fprintf(&b, "\n/dev/%s: ENOENT", d)
	}
	return b.String()
}

func piFutexes(kinds ...string) string {
	var b strings.Builder
	for _, kind := range kinds {
		for _, op := range strings.Fields("LOCK_PI LOCK_PI2 UNLOCK_PI TRYLOCK_PI WAIT_REQUEUE_PI CMP_REQUEUE_PI") {
			fmt.Fprintf(&b, "futex %s%s: ENOSYS\n", op, kind)
		}
	}
	return b.String()
}

const ttyAnswers = `
		TIOCSTI on 0: ENOTTY
		TIOCSTI with an upper half on 0: ENOTTY
		TIOCLINUX on 0: ENOTTY
		TIOCLINUX with an upper half on 0: ENOTTY
		TIOCSTI on 1: ENOTTY
		TIOCSTI with an upper half on 1: ENOTTY
		TIOCLINUX on 1: ENOTTY
		TIOCLINUX with an upper half on 1: ENOTTY
		TIOCSTI on 2: ENOTTY
		TIOCSTI with an upper half on 2: ENOTTY
		TIOCLINUX on 2: ENOTTY
		TIOCLINUX with an upper half on 2: ENOTTY
		TIOCCONS: ENOTTY
		TIOCSETD: ENOTTY
		TIOCVHANGUP: ENOTTY
		/dev/tty: ENXIO
		TIOCSTI through /dev/tty: ENXIO
		/dev/console: ENOENT
		/dev/tty0: ENOENT
		/dev/vcs: ENOENT`

func TestPrivilege(t *testing.T) { runDenials(t, privilegeDenials) }

// A54: the devices and nothing else.
func TestDevicesListed(t *testing.T) {
	l := newLab(t)
	for _, p := range profiles {
		got := l.shell(t, isolate.Policy{Profile: p}, `for f in /dev/*; do [ -L $f ] || [ -d $f ] || printf '%s ' $f; done`)
		if want := "/dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero "; got != want {
			t.Errorf("%s has devices %q, want %q", p, got, want)
		}
	}
}

// screen collects what a program writes to its terminal.
type screen struct {
	sync.Mutex
	bytes.Buffer
}

// written is called when something is written.
type written func()

func (w written) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

func (s *screen) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.Buffer.Write(p)
}

// A53, B32: with a terminal it is a new one of the sandbox's own, nothing can
// be typed into it from inside, and it hangs up when the session ends.
func TestPrivateTerminal(t *testing.T) {
	l := newLab(t)
	for _, p := range withSockets {
		t.Run(p.String(), func(t *testing.T) {
			var out screen
			c := script(t, "priv_tty.c")
			c.Args = []string{"/bin/sh", "-c", "echo terminal: $(tty); echo terminals: $(cd /dev/pts && echo *); " + c.Args[0]}
			c.Terminal = &isolate.Terminal{Output: &out}
			res := l.run(t, isolate.Policy{Profile: p}, c)
			if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
				t.Errorf("ended with %s %d %s", res.Reason, res.ExitCode, res.Detail)
			}
			want := "terminal: /dev/pts/0\nterminals: 0 ptmx\n" + strings.NewReplacer(
				"TIOCSTI through /dev/tty: ENXIO", "TIOCSTI through /dev/tty: ENOTTY", "/dev/tty: ENXIO", "/dev/tty: ok").Replace(ttyAnswers)
			compareAnswers(t, answersOf(want), answersOf(strings.ReplaceAll(out.String(), "\r", "")))
		})
	}
	if _, err := l.Run(t.Context(), isolate.Policy{Profile: policy.ProfileStrict}, isolate.Cmd{Args: []string{"tty"}, Terminal: &isolate.Terminal{Output: &screen{}}}); err == nil {
		t.Error("profile strict gave a terminal")
	}
}

// A53: when the caller ends the run, what sits at the terminal is hung up or
// killed, and nothing that left the session stays.
func TestTerminalHangsUp(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := isolate.Cmd{Args: []string{"/bin/sh", "-c", "setsid sleep 600 & sleep 600 & echo ready; exec sleep 600"}, Terminal: &isolate.Terminal{Output: written(cancel)}}
	began := time.Now()
	res, err := l.Run(ctx, isolate.Policy{Wall: patience}, c)
	if err != nil || res.Reason != isolate.ReasonCancelled {
		t.Errorf("ended with %s, %v", res.Reason, err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the end took %s", took)
	}
}

// B36: the crash of the program itself leaves no core in the workspace.
func TestNoCoreFile(t *testing.T) {
	l := newLab(t)
	out := filepath.Join(tempDir(t), "out")
	res := l.run(t, isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/sh", "-c", "kill -SEGV $$"}, Out: out})
	if res.Reason != isolate.ReasonSignal || res.Signal != 11 || res.ExitCode != 139 {
		t.Errorf("ended with %s, signal %d, code %d", res.Reason, res.Signal, res.ExitCode)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("the crash left %v, %v", left, err)
	}
}

// A46: even without the filter no namespace could be made: the limits of the
// sandbox's user namespace are 0.
func TestNamespaceLimits(t *testing.T) {
	l := newLab(t)
	got := l.shell(t, isolate.Policy{}, `cd /proc/sys/user && for f in max_*_namespaces; do read n <$f; echo "$f: $n"; done`)
	kinds := 0
	for _, a := range answersOf(got) {
		kinds++
		if a.got != "0" {
			t.Errorf("%s is %s", a.attempt, a.got)
		}
	}
	if kinds < 8 {
		t.Errorf("%d kinds of namespaces have limits: %s", kinds, got)
	}
}
