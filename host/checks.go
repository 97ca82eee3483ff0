package host

// The checks: id, title, what is probed, and what a failure does to a run.
// Their order is that of the report and of docs/doctor.md. The words for what
// can be wrong stand in words.go. Ids never change; scripts hang on them.

var (
	usernsMax       = entry{"userns.max", "user namespaces are allowed", "reads `user.max_user_namespaces`, looks for `/proc/self/ns/user`", BlockAlways, ""}
	usernsClone     = entry{"userns.clone-sysctl", "ordinary users may make user namespaces", "reads `kernel.unprivileged_userns_clone` (Debian)", BlockAlways, ""}
	usernsApparmor  = entry{"userns.apparmor", "AppArmor leaves user namespaces their capabilities", "reads `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu), then makes a namespace and mounts in it", BlockAlways, ""}
	namespaceLimits = entry{"namespaces.max", "the other namespaces are allowed", "reads `user.max_{mnt,pid,net,ipc,uts}_namespaces`", BlockAlways, ""}
	usernsCreate    = entry{"userns.create", "the namespaces of a cell can be made", "starts a child from a sealed memfd in new user, mount, pid, network, ipc and uts namespaces", BlockAlways, ""}
	usernsNested    = entry{"userns.nested", "the namespaces of a sandbox can be made inside a cell", "does it, and mounts a tmpfs and proc there", BlockAlways, ""}
	usernsClose     = entry{"userns.close", "nested namespaces can be forbidden inside", "writes 0 to `user.max_user_namespaces` in the inner namespace and tries to make another", BlockNever, ""}
	netLoopback     = entry{"net.loopback", "a network of its own with only a loopback interface", "sets `lo` up in a new network namespace and connects to itself", BlockAlways, ""}
	containerAround = entry{"container", "a container around this process", "looks for `/.dockerenv`, `/run/.containerenv`, `/run/systemd/container`, the variables of containers, the names of control groups", BlockNever, ""}

	mountTmpfs = entry{"mount.tmpfs", "tmpfs with a size limit", "mounts one in the cell and is stopped at its size", BlockAlways, ""}
	mountBind  = entry{"mount.bind", "the host's /usr can be shown read-only", "binds it in the cell and is refused a new file", BlockAlways, ""}
	mountPivot = entry{"mount.pivot", "the root directory can be replaced", "calls `pivot_root` in the cell and leaves the old root", BlockAlways, ""}
	procMount  = entry{"proc.mount", "a fresh /proc that shows only the sandbox", "mounts proc in a new pid namespace", BlockAlways, ""}
	procSubset = entry{"proc.subset", "a /proc without kernel information", "mounts proc with `subset=pid` (Linux 5.8)", BlockNever, ""}

	cgroupMode    = entry{"cgroup.mode", "control groups version 2", "reads `/proc/self/cgroup` and `/proc/self/mountinfo`", BlockNever, ""}
	cgroupMemory  = entry{"cgroup.memory", "memory limit of the whole process tree", "makes a group below its own, writes the limit and reads it back", BlockUnlessAllowed, "weak-limits"}
	cgroupPIDs    = entry{"cgroup.pids", "process limit of the whole process tree", "makes a group below its own, writes the limit and reads it back", BlockUnlessAllowed, "weak-limits"}
	cgroupCPU     = entry{"cgroup.cpu", "processor limit of the whole process tree", "makes a group below its own, writes the limit and reads it back", BlockNever, ""}
	cgroupSession = entry{"cgroup.session", "a systemd user manager that can delegate control groups", "looks for `$XDG_RUNTIME_DIR/systemd/private` and `bus`; sends nothing", BlockNever, ""}
	cgroupKill    = entry{"cgroup.kill", "a whole group can be killed at once", "makes a version 2 group and looks for `cgroup.kill` (Linux 5.14)", BlockNever, ""}
	cgroupOOM     = entry{"cgroup.oom-group", "running out of memory ends the whole sandbox", "looks for `memory.oom.group` in the group made", BlockNever, ""}
	cgroupSwap    = entry{"cgroup.swap", "the memory limit holds for swap too", "reads `/proc/swaps`, looks for `memory.swap.max` or `memory.memsw.limit_in_bytes` in the group made", BlockNever, ""}

	identityMap  = entry{"identity.map", "subordinate ids could be used (they are not yet)", "reads `/etc/subuid` and `/etc/subgid`, maps a child with `newuidmap` and `newgidmap`", BlockNever, ""}
	identityRoot = entry{"identity.root", "sandboxes run as an ordinary user", "reads the user id and `/proc/self/uid_map`", BlockNever, ""}

	kernelVersion    = entry{"kernel.version", "Linux 5.14 or newer", "asks `uname`; the checks below ask the calls themselves", BlockNever, ""}
	kernelOpenat2    = entry{"kernel.openat2", "files can be opened strictly below a directory", "calls `openat2` (Linux 5.6)", BlockAlways, ""}
	kernelPidfd      = entry{"kernel.pidfd", "handles to processes", "calls `pidfd_open` (Linux 5.3)", BlockAlways, ""}
	kernelCloseRange = entry{"kernel.close_range", "stray descriptors can be closed at once", "calls `close_range` (Linux 5.9)", BlockAlways, ""}
	kernelClone3     = entry{"kernel.clone3", "processes can be started inside their control group", "calls `clone3` with nothing to clone (Linux 5.3)", BlockNever, ""}
	kernelSeccomp    = entry{"kernel.seccomp-filter", "system-call filters", "calls `seccomp` without a program", BlockAlways, ""}
	kernelNotify     = entry{"kernel.seccomp-notify", "refused system calls are reported to the supervisor", "filters `socket` on a thread and answers its notification (Linux 5.0)", BlockUnlessAllowed, "no-denial-records"}
	kernelKillable   = entry{"kernel.seccomp-killable", "each refused call is reported exactly once", "calls `seccomp` with the flag (Linux 5.19)", BlockNever, ""}
	kernelMountAPI   = entry{"kernel.mount-api", "mounts can be made read-only with all below them", "calls `mount_setattr` (Linux 5.12), and for root `open_tree` (5.2), with arguments that are refused", BlockAlways, ""}
	kernelUcounts    = entry{"kernel.ucount-rlimits", "resource limits count per user namespace", "compares the release with 5.14; it cannot be called", BlockNever, ""}
	kernelLandlock   = entry{"kernel.landlock", "Landlock as a second layer", "asks for the version of its interface (Linux 5.13)", BlockNever, ""}
	libseccompCheck  = entry{"libseccomp", "libseccomp knows every system call of the profiles", "asks the linked library for its version, its level on this kernel and each name", BlockNever, ""}
	memfdNoexec      = entry{"memfd.noexec", "programs may be executed from memory", "reads `vm.memfd_noexec`", BlockAlways, ""}
	memfdExec        = entry{"memfd.exec", "isolate can start itself from a sealed copy", "executes a sealed memfd", BlockAlways, ""}

	lsmApparmor = entry{"lsm.apparmor", "AppArmor does not confine isolate", "reads `/sys/module/apparmor/parameters/enabled` and `/proc/self/attr`", BlockNever, ""}
	lsmSELinux  = entry{"lsm.selinux", "SELinux does not confine isolate", "reads `/sys/fs/selinux/enforce` and `/proc/self/attr/current`", BlockNever, ""}

	surfaceAlg      = entry{"surface.af-alg", "AF_ALG sockets out of reach", "reads `/proc/net/protocols`, `/proc/modules`, `/lib/modules`, `modprobe.d`; opens no socket, which would load the module", BlockNever, ""}
	surfaceRxrpc    = entry{"surface.af-rxrpc", "RxRPC sockets out of reach", "as `surface.af-alg`", BlockNever, ""}
	surfaceEsp4     = entry{"surface.esp4", "IPsec ESP over IPv4 out of reach", "as `surface.af-alg`", BlockNever, ""}
	surfaceEsp6     = entry{"surface.esp6", "IPsec ESP over IPv6 out of reach", "as `surface.af-alg`", BlockNever, ""}
	surfaceIoUring  = entry{"surface.io-uring", "io_uring out of reach", "reads `kernel.io_uring_disabled`, calls `io_uring_setup` without parameters", BlockNever, ""}
	surfaceBPF      = entry{"surface.bpf", "BPF out of reach of ordinary users", "reads `kernel.unprivileged_bpf_disabled`", BlockNever, ""}
	surfaceUffd     = entry{"surface.userfaultfd", "kernel faults cannot be held up by users", "reads `vm.unprivileged_userfaultfd`", BlockNever, ""}
	surfacePerf     = entry{"surface.perf", "kernel profiling out of reach of ordinary users", "reads `kernel.perf_event_paranoid`", BlockNever, ""}
	surfaceDmesg    = entry{"surface.dmesg", "the kernel log out of reach of ordinary users", "reads `kernel.dmesg_restrict`", BlockNever, ""}
	surfaceKptr     = entry{"surface.kptr", "kernel addresses hidden", "reads `kernel.kptr_restrict`", BlockNever, ""}
	surfaceTiocsti  = entry{"surface.tiocsti", "nobody can type into a terminal for its user", "reads `dev.tty.legacy_tiocsti`", BlockNever, ""}
	surfaceYama     = entry{"surface.ptrace", "processes of a user cannot trace each other", "reads `kernel.yama.ptrace_scope`", BlockNever, ""}
	surfaceCorePipe = entry{"surface.core-pattern", "crash dumps are not parsed by a program of the host", "reads `kernel.core_pattern`", BlockNever, ""}
	surfaceCPU      = entry{"surface.cpu", "processor side channels closed", "reads `/sys/devices/system/cpu/vulnerabilities`", BlockNever, ""}
	surfaceSMT      = entry{"surface.smt", "no two programs share a processor core", "reads `/sys/devices/system/cpu/smt/active`", BlockNever, ""}

	rundirLink   = entry{"rundir.symlink", "the runtime directory is no symbolic link", "`lstat`", BlockAlways, ""}
	rundirOwner  = entry{"rundir.owner", "the runtime directory is the user's own", "`lstat`, or of its parent while it does not exist", BlockAlways, ""}
	rundirMode   = entry{"rundir.mode", "nobody else can enter the runtime directory", "`lstat`", BlockAlways, ""}
	rundirParent = entry{"rundir.parent", "nobody else can move the runtime directory away", "`lstat` of every directory above it, through links", BlockAlways, ""}
	rundirMount  = entry{"rundir.mount", "the runtime directory is on a mount that permits execution", "reads `/proc/self/mountinfo` for noexec and nosuid", BlockNever, ""}
	rundirLocal  = entry{"rundir.local", "the runtime directory is on a local file system", "reads `/proc/self/mountinfo` for its type", BlockNever, ""}
	rundirSpace  = entry{"rundir.space", "room in the runtime directory", "`statfs`", BlockNever, ""}
	rundirShared = entry{"rundir.propagation", "mounts of the runtime directory are not propagated", "reads `/proc/self/mountinfo` for peer groups", BlockNever, ""}

	inotifyWatch     = entry{"inotify.watch", "the bridge can watch a directory", "watches a directory of the cell through its descriptor and is told of a new file", BlockNever, ""}
	inotifyInstances = entry{"limits.inotify-instances", "inotify instances for many runs", "reads `fs.inotify.max_user_instances`", BlockNever, ""}
	inotifyWatches   = entry{"limits.inotify-watches", "inotify watches for many runs", "reads `fs.inotify.max_user_watches`", BlockNever, ""}
	inotifyQueue     = entry{"limits.inotify-queue", "room for bursts of file events", "reads `fs.inotify.max_queued_events`", BlockNever, ""}
	limitFiles       = entry{"limits.files", "open files for many runs", "reads `/proc/self/limits`", BlockNever, ""}
	limitProcesses   = entry{"limits.processes", "processes for many runs", "reads `/proc/self/limits`", BlockNever, ""}

	netDevice = entry{"net.device", "sandboxes can be given a network", "looks whether `/dev/net/tun` may be opened; does not open it, which would load the module", BlockNever, ""}
	netHelper = entry{"net.helper", "the program that holds a sandbox's network", "looks for `isolate-netd` beside isolate and in libexec", BlockNever, ""}

	hostClock   = entry{"host.clock", "a clock that is cheap to read", "reads the current clock source in `/sys`", BlockNever, ""}
	hostHidepid = entry{"host.hidepid", "other users cannot see the processes of isolate", "reads `/proc/self/mountinfo` for hidepid", BlockNever, ""}
	hostTimeNS  = entry{"host.time-namespace", "time namespaces", "looks for `/proc/self/ns/time`", BlockNever, ""}
	hostRootfs  = entry{"host.rootfs", "sandboxes share no files with the host", "looks at the options", BlockNever, ""}

	auditKey    = entry{"audit.key", "only the user can read the signing key", "`lstat`", BlockNever, ""}
	auditLog    = entry{"audit.log", "the audit log can be written", "`access`", BlockNever, ""}
	auditSpace  = entry{"audit.space", "room for the audit log", "`statfs`", BlockNever, ""}
	auditAnchor = entry{"audit.anchor", "the place of the last anchor answers", "asks it, if one is set up", BlockNever, ""}
)

type section struct {
	name  string
	looks []lookup
}

// sections are the checks in the order of the report. It is a function so that
// processes that check nothing do not pay for it at start.
func sections() []section {
	return []section{
		{"namespaces", []lookup{
			{&usernsMax, fast, checkUsernsMax, nil},
			{&usernsClone, fast, checkUsernsClone, nil},
			{&usernsApparmor, fast, checkUsernsApparmor, nil},
			{&namespaceLimits, slow, checkNamespaceLimits, nil},
			{&usernsCreate, slow, checkUsernsCreate, nil},
			{&usernsNested, slow, checkUsernsNested, nil},
			{&usernsClose, slow, checkUsernsClose, nil},
			{&netLoopback, slow, checkLoopback, nil},
			{&containerAround, slow, checkContainer, nil},
		}},
		{"mounts", []lookup{
			{&mountTmpfs, slow, checkMountTmpfs, nil},
			{&mountBind, slow, checkMountBind, nil},
			{&mountPivot, slow, checkMountPivot, nil},
			{&procMount, slow, checkProcMount, nil},
			{&procSubset, slow, checkProcSubset, nil},
		}},
		{"control groups", []lookup{
			{&cgroupMode, slow, checkCgroupMode, nil},
			{&cgroupMemory, fast, checkController(&cgroupMemory, Fail), nil},
			{&cgroupPIDs, fast, checkController(&cgroupPIDs, Fail), nil},
			{&cgroupCPU, slow, checkController(&cgroupCPU, Warn), nil},
			{&cgroupSession, slow, checkCgroupSession, nil},
			{&cgroupKill, slow, checkCgroupKill, nil},
			{&cgroupOOM, slow, checkCgroupOOM, nil},
			{&cgroupSwap, slow, checkCgroupSwap, nil},
		}},
		{"identity", []lookup{
			{&identityMap, slow, checkIdentityMap, nil},
			{&identityRoot, slow, checkIdentityRoot, nil},
		}},
		{"kernel", []lookup{
			{&kernelVersion, slow, checkKernelVersion, nil},
			{&kernelOpenat2, fast, checkFeature(&kernelOpenat2, Fail), nil},
			{&kernelPidfd, fast, checkFeature(&kernelPidfd, Fail), nil},
			{&kernelCloseRange, fast, checkFeature(&kernelCloseRange, Fail), nil},
			{&kernelClone3, slow, checkFeature(&kernelClone3, Warn), nil},
			{&kernelSeccomp, fast, checkFeature(&kernelSeccomp, Fail), nil},
			{&kernelNotify, fast, checkNotify, nil},
			{&kernelKillable, slow, checkFeature(&kernelKillable, Warn), nil},
			{&kernelMountAPI, fast, checkMountAPI, nil},
			{&kernelUcounts, slow, checkUcounts, nil},
			{&kernelLandlock, slow, checkLandlock, nil},
			{&libseccompCheck, slow, checkLibseccomp, nil},
			{&memfdNoexec, fast, checkMemfdNoexec, nil},
			{&memfdExec, slow, checkMemfdExec, nil},
		}},
		{"security modules", []lookup{
			{&lsmApparmor, slow, checkApparmor, nil},
			{&lsmSELinux, slow, checkSELinux, nil},
		}},
		{"exposed surface", []lookup{
			{&surfaceAlg, slow, checkModule(&surfaceAlg, "af_alg", "ALG"), nil},
			{&surfaceRxrpc, slow, checkModule(&surfaceRxrpc, "rxrpc", "RXRPC"), nil},
			{&surfaceEsp4, slow, checkModule(&surfaceEsp4, "esp4", ""), nil},
			{&surfaceEsp6, slow, checkModule(&surfaceEsp6, "esp6", ""), nil},
			{&surfaceIoUring, slow, checkIoUring, nil},
			{&surfaceBPF, slow, checkSurfaceSysctl(&surfaceBPF), nil},
			{&surfaceUffd, slow, checkSurfaceSysctl(&surfaceUffd), nil},
			{&surfacePerf, slow, checkSurfaceSysctl(&surfacePerf), nil},
			{&surfaceDmesg, slow, checkSurfaceSysctl(&surfaceDmesg), nil},
			{&surfaceKptr, slow, checkSurfaceSysctl(&surfaceKptr), nil},
			{&surfaceTiocsti, slow, checkSurfaceSysctl(&surfaceTiocsti), nil},
			{&surfaceYama, slow, checkSurfaceSysctl(&surfaceYama), nil},
			{&surfaceCorePipe, slow, checkCorePattern, nil},
			{&surfaceCPU, slow, checkVulnerabilities, nil},
			{&surfaceSMT, slow, checkSMT, nil},
		}},
		{"runtime directory", []lookup{
			{&rundirLink, slow, checkRundirLink, nil},
			{&rundirOwner, slow, checkRundirOwner, nil},
			{&rundirMode, slow, checkRundirMode, nil},
			{&rundirParent, fast, checkRundirParent, nil},
			{&rundirMount, slow, checkRundirMount, nil},
			{&rundirLocal, slow, checkRundirLocal, nil},
			{&rundirSpace, slow, checkRundirSpace, nil},
			{&rundirShared, slow, checkRundirShared, nil},
		}},
		{"limits", []lookup{
			{&inotifyWatch, slow, checkInotifyWatch, nil},
			{&inotifyInstances, slow, checkInotifyLimit(&inotifyInstances, "fs.inotify.max_user_instances", 128), nil},
			{&inotifyWatches, slow, checkInotifyLimit(&inotifyWatches, "fs.inotify.max_user_watches", 8192), nil},
			{&inotifyQueue, slow, checkInotifyLimit(&inotifyQueue, "fs.inotify.max_queued_events", 16384), nil},
			{&limitFiles, slow, checkRlimit(&limitFiles, "Max open files", 4096), nil},
			{&limitProcesses, slow, checkRlimit(&limitProcesses, "Max processes", 512), nil},
		}},
		{"networks of sandboxes", []lookup{
			{&netDevice, slow, checkNetDevice, nil},
			{&netHelper, slow, checkNetHelper, nil},
		}},
		{"host", []lookup{
			{&hostClock, slow, checkClock, nil},
			{&hostHidepid, slow, checkHidepid, nil},
			{&hostTimeNS, slow, checkTimeNamespace, nil},
			{&hostRootfs, slow, checkRootfs, nil},
		}},
		{"audit", []lookup{
			{&auditKey, slow, checkAuditKey, hasAuditKey},
			{&auditLog, slow, checkAuditLog, hasAudit},
			{&auditSpace, slow, checkAuditSpace, hasAudit},
			{&auditAnchor, slow, checkAuditAnchor, hasAudit},
		}},
	}
}
