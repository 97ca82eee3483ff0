package host

// The words for everything that can be wrong, for Probe, Blocking and Explain
// alike. Rules: "what" completes a refusal, lower case, "cannot …"; "missing"
// names the guarantee that is lost, in a sentence a user understands; "remedy"
// says what to do, the least drastic first, never a global setting before a
// local one; where consent lifts the refusal, say adds that. None of them claims that a machine is vulnerable: fixes change
// which are.
//
// Placeholders: {user} {uid} of the sandboxes' user, {dir} the runtime
// directory, {controller} and {guards} of a cgroup check, {since} the first
// kernel of a feature, {log} and {key} of the audit.

// noAnswer stands in for any check whose probe gave no answer.
var noAnswer = fault{nil,
	"cannot tell whether this works here",
	"a guarantee that was not seen to hold does not count",
	"run `isolate doctor` again; if it goes on, report the evidence above"}

// guards says what is lost without a controller.
func guards(e *entry) string {
	switch e {
	case &cgroupMemory:
		return "the memory of a process tree is not limited as a whole"
	case &cgroupPIDs:
		return "the number of processes is limited per user only, shared with everything else that user runs"
	}
	return "a processor share cannot be enforced; time limits still hold"
}

var cgroupTrio = []*entry{&cgroupMemory, &cgroupPIDs, &cgroupCPU}

const (
	noUserNamespace = "no sandbox is possible without a user namespace: it is what gives an ordinary user all the others"
	askUnifiedMode  = "boot with systemd.unified_cgroup_hierarchy=1, or ask for a host that does"
	delegate        = "as administrator, in /etc/systemd/system/user@.service.d/delegate.conf: [Service] Delegate=cpu cpuset io memory pids; then systemctl daemon-reload and log in again"
	runInScope      = "start it in a group of its own: systemd-run --user --scope -p Delegate=yes -- isolate …"
)

// Namespaces.
var (
	usernsAbsent = fault{[]*entry{&usernsMax},
		"cannot make a user namespace",
		noUserNamespace,
		"use a kernel with CONFIG_USER_NS=y"}
	usernsMaxZero = fault{[]*entry{&usernsMax},
		"cannot make a user namespace",
		noUserNamespace,
		"as administrator: sysctl -w user.max_user_namespaces=15000, and the same line in /etc/sysctl.d/ to keep it; inside a sandbox or container, run outside of it"}
	usernsCloneZero = fault{[]*entry{&usernsClone},
		"cannot make a user namespace as an ordinary user",
		noUserNamespace,
		"as administrator: sysctl -w kernel.unprivileged_userns_clone=1, and the same line in /etc/sysctl.d/ to keep it"}
	usernsApparmorOn = fault{[]*entry{&usernsApparmor, &usernsCreate},
		"cannot use the capabilities of a user namespace",
		"AppArmor lets ordinary users make user namespaces only without capabilities, and a sandbox cannot mount anything in those",
		"as administrator: install the AppArmor profile that `isolate doctor --print-setup` prints, one profile only, as two for one path cancel each other"}
	usernsApparmorMaybe = fault{[]*entry{&usernsApparmor},
		"cannot be sure of the capabilities of a user namespace",
		"AppArmor takes them away from programs without a profile; only building a sandbox shows whether isolate has one",
		"run `isolate doctor`; it tries"}
	namespacesZero = fault{[]*entry{&namespaceLimits},
		"cannot make every namespace a sandbox needs",
		"a sandbox shares no namespace with the host",
		"as administrator: set the named user.max_…_namespaces to 15000 with sysctl -w and in /etc/sysctl.d/"}
	usernsCreateLimit = fault{[]*entry{&usernsCreate},
		"cannot make the namespaces of a cell: a limit on their number is reached",
		noUserNamespace,
		"see userns.max and namespaces.max above; if those are in order, too many namespaces exist (lsns) or too many are nested (32 at most)"}
	usernsCreateMemfd = fault{[]*entry{&usernsCreate},
		"cannot make the namespaces of a cell from a sealed copy of isolate",
		"what permits namespaces to isolate's file does not hold for the copy that isolate runs from",
		"let the AppArmor or SELinux rule for isolate cover what it executes too; docs/doctor.md has a profile that does"}
	usernsCreateDocker = fault{[]*entry{&usernsCreate},
		"cannot make the namespaces of a cell inside this container",
		noUserNamespace,
		"run on the host, or start the container with --security-opt seccomp=PROFILE that permits clone, clone3 and unshare with namespaces, plus mount, mount_setattr, umount2 and pivot_root"}
	usernsCreateKube = fault{[]*entry{&usernsCreate},
		"cannot make the namespaces of a cell inside this pod",
		noUserNamespace,
		"give the pod hostUsers: false and a seccompProfile of type Localhost that permits clone, clone3 and unshare with namespaces, plus mount, mount_setattr, umount2 and pivot_root"}
	usernsCreateRefused = fault{[]*entry{&usernsCreate},
		"cannot make the namespaces of a cell",
		noUserNamespace,
		"look for what refuses it: the checks above, a system-call filter around this process (Seccomp in /proc/self/status), a security module, the hardening options of a systemd service (RestrictNamespaces=)"}
	usernsNestedRefused = fault{[]*entry{&usernsNested},
		"cannot make the namespaces of a sandbox inside a cell",
		"programs run two user namespaces deep, apart from the trusted process that builds their sandbox",
		"raise user.max_user_namespaces, and let the AppArmor or SELinux rule for isolate permit nested user namespaces"}
	usernsCloseRefused = fault{[]*entry{&usernsClose},
		"cannot forbid nested namespaces by a limit",
		"only the system-call filter keeps programs from making namespaces of their own",
		"run where /proc/sys is writable in new namespaces; inside a container this needs an unmasked /proc"}
	loopbackRefused = fault{[]*entry{&netLoopback},
		"cannot set up a network namespace",
		"a program must have a network of its own to be cut off from the host's",
		"use a kernel with CONFIG_NET_NS=y; if a security module refuses it, permit capability net_admin inside user namespaces"}
)

// Mounts.
var (
	tmpfsRefused = fault{[]*entry{&mountTmpfs},
		"cannot mount a tmpfs in a user namespace",
		"the workspace and /tmp of a sandbox are file systems of its own with a size limit",
		"see userns.apparmor and userns.create; inside a container, permit mount in its system-call filter and AppArmor profile"}
	bindRefused = fault{[]*entry{&mountBind},
		"cannot show /usr of the host read-only",
		"a program must not be able to change files of the host",
		"use --rootfs DIR with a tree of its own; inside a container, permit mount in its security profile"}
	pivotRefused = fault{[]*entry{&mountPivot},
		"cannot replace the root directory",
		"a program sees only the files given to it because nothing of the old root is left; chroot does not give that",
		"a root that is the initial ramdisk cannot be replaced (EINVAL): boot with a real root file system or switch_root to one; otherwise permit pivot_root in the filter around this process"}
	procDocker = fault{[]*entry{&procMount},
		"cannot mount a fresh /proc inside this Docker container",
		"a program must not see other processes; the container's own /proc would show them, so it is not used in its place",
		"run on the host, or start the container with --security-opt systempaths=unconfined"}
	procPodman = fault{[]*entry{&procMount},
		"cannot mount a fresh /proc inside this Podman container",
		"a program must not see other processes; the container's own /proc would show them, so it is not used in its place",
		"run on the host, or start the container with --security-opt unmask=/proc"}
	procKube = fault{[]*entry{&procMount},
		"cannot mount a fresh /proc inside this pod",
		"a program must not see other processes; the pod's own /proc would show them, so it is not used in its place",
		"give the container securityContext.procMount: Unmasked and the pod hostUsers: false"}
	procRefused = fault{[]*entry{&procMount},
		"cannot mount a fresh /proc",
		"a program must not see other processes; the /proc around would show them, so it is not used in its place",
		"the kernel refuses it while anything covers a part of every /proc in sight (EPERM): remove those mounts or run outside of what made them; otherwise see userns.apparmor"}
	procSubsetRefused = fault{[]*entry{&procSubset},
		"cannot mount a /proc without kernel information",
		"profile strict hides everything but processes; here it can only cover the files it knows",
		"use Linux 5.8 or newer"}
)

// Control groups.
var (
	cgroupModeOld = fault{[]*entry{&cgroupMode},
		"cannot use control groups version 2 for the limits",
		"version 1 has no delegation to ordinary users by systemd, no memory.oom.group, and rights must be given per controller",
		askUnifiedMode + "; to stay, an administrator makes a directory per controller and gives it to {user} (docs/doctor.md)"}
	cgroupModeNone = fault{[]*entry{&cgroupMode},
		"cannot find any control group hierarchy",
		"limits cannot be put on a process tree",
		"mount cgroup2 on /sys/fs/cgroup; inside a container, start it with a control group mount"}
	controllerAbsent = fault{cgroupTrio,
		"cannot limit with the {controller} controller: the kernel offers none here",
		"{guards}",
		"boot without cgroup_disable={controller}, with cgroup_enable=memory where that is needed, and CONFIG_MEMCG, CONFIG_CGROUP_PIDS, CONFIG_CFS_BANDWIDTH; inside a container, start it with a control group mount"}
	controllerUndelegated = fault{cgroupTrio,
		"cannot limit with the {controller} controller: it is not handed down to this group",
		"{guards}",
		delegate}
	controllerScope = fault{cgroupTrio,
		"cannot limit with the {controller} controller: this process may not change its control group",
		"{guards}",
		runInScope}
	controllerDenied = fault{cgroupTrio,
		"cannot limit with the {controller} controller: this process may not change its control group",
		"{guards}",
		"as administrator: loginctl enable-linger {user}; or log in as {user} (ssh, a console, machinectl shell), not with su or sudo"}
	controllerUnowned = fault{cgroupTrio,
		"cannot limit with the {controller} controller: this process may not change its control group",
		"{guards}",
		"as administrator, make a control group, give it to {user} and put {user}'s shell in it: `isolate doctor --print-setup` prints how"}
	controllerOld = fault{cgroupTrio,
		"cannot limit with the {controller} controller: its version 1 group belongs to somebody else",
		"{guards}",
		"as administrator, make a directory for {user} in each controller's hierarchy and put {user}'s shell in it: `isolate doctor --print-setup` prints how; better, " + askUnifiedMode}
	controllerContainer = fault{cgroupTrio,
		"cannot limit with the {controller} controller: the container's control groups are read-only",
		"{guards}",
		"run on the host; or start the container with a writable private control group (podman: --cgroupns=private --security-opt unmask=/sys/fs/cgroup; docker: --cgroupns=private and a writable mount of /sys/fs/cgroup)"}
	sessionAbsent = fault{[]*entry{&cgroupSession},
		"cannot ask a systemd user manager for a control group",
		"limits need a control group that somebody else has handed to {user}",
		"log in through a systemd session (not su or sudo), or as administrator: loginctl enable-linger {user}; without systemd, give {user} a control group"}
	killAbsent = fault{[]*entry{&cgroupKill},
		"cannot kill a control group at once",
		"processes are ended through their pid namespace only, and then one by one until none is left",
		"use Linux 5.14 or newer with control groups version 2"}
	killUnseen = fault{[]*entry{&cgroupKill},
		"cannot make a version 2 control group",
		"processes are ended through their pid namespace only, and then one by one until none is left",
		"with systemd: systemd-run --user --scope -p Delegate=yes -- isolate …; else an administrator makes a version 2 directory and gives it to {user} (docs/doctor.md)"}
	oomGroupAbsent = fault{[]*entry{&cgroupOOM},
		"cannot have the whole sandbox ended when its memory runs out",
		"the kernel may kill one process of a sandbox and leave the others in a half-dead run; isolate then ends them itself",
		askUnifiedMode}
	swapOpen = fault{[]*entry{&cgroupSwap},
		"cannot limit the swap a sandbox uses",
		"the memory limit is soft: what does not fit goes to the host's swap",
		"boot with swapaccount=1, use control groups version 2, or turn swap off"}
)

// Identity.
var (
	singleID = fault{[]*entry{&identityMap},
		"cannot run programs under a user id of their own",
		"a sandboxed program has {user}'s own kernel user id: it shares {user}'s quotas, and after an escape could read {user}'s files",
		"run isolate as a user who owns nothing; ranges of subordinate ids are not used yet"}
	mapRefused = fault{[]*entry{&identityMap},
		"cannot map the subordinate ids of {user}",
		"a sandboxed program has {user}'s own kernel user id: it shares {user}'s quotas, and after an escape could read {user}'s files",
		"as administrator: reinstall uidmap, so that newuidmap and newgidmap are set-uid root or have cap_setuid and cap_setgid, and are not on a nosuid mount"}
	realRoot = fault{[]*entry{&identityRoot},
		"cannot keep root out of an escape",
		"isolate itself is root: a fault of its own would be root's; its programs run as an id that owns nothing",
		"run isolate as an ordinary user"}
)

// Kernel.
var (
	kernelOld = fault{[]*entry{&kernelVersion},
		"cannot count on what Linux 5.14 brought",
		"this kernel is older than those isolate is made for; the checks below say what is missing",
		"use Linux 5.14 or newer"}
	featureAbsent = fault{[]*entry{&kernelOpenat2, &kernelPidfd, &kernelCloseRange, &kernelSeccomp, &kernelMountAPI},
		"cannot use a system call that this kernel does not have",
		"isolate relies on it and has no second way that is as safe",
		"use Linux {since} or newer"}
	featureFiltered = fault{[]*entry{&kernelOpenat2, &kernelPidfd, &kernelCloseRange, &kernelSeccomp, &kernelMountAPI},
		"cannot use a system call that something around this process refuses",
		"isolate relies on it and has no second way that is as safe; the kernel is new enough to have it",
		"permit the call in the filter around this process (docker and podman: --security-opt seccomp=PROFILE), or run outside of it"}
	notifyRefused = fault{[]*entry{&kernelNotify},
		"cannot be told of refused system calls",
		"network attempts and other refused calls are still refused, and cannot be recorded",
		"use Linux {since} or newer; if it is new enough, permit seccomp in the filter around this process; if another listener is already in force around this process, run outside of it"}
	killableAbsent = fault{[]*entry{&kernelKillable},
		"cannot count every refused call exactly",
		"a signal makes a program repeat its call, so that one attempt may be recorded more than once",
		"use Linux {since} or newer"}
	clone3Absent = fault{[]*entry{&kernelClone3},
		"cannot start a process inside its control group",
		"a process is moved there right after its start instead, which costs time",
		"use Linux {since} or newer; inside a container, permit clone3 in its system-call filter"}
	libseccompUnknown = fault{[]*entry{&libseccompCheck},
		"cannot put every system call of the profiles into a filter",
		"libseccomp does not know some names; they stay refused, as everything that is not listed, but rules of their own for them do not exist",
		"use a newer libseccomp; 2.5.4 is the oldest tested"}
	libseccompOld = fault{[]*entry{&libseccompCheck},
		"cannot rely on libseccomp for notifications",
		"levels below 6 cannot build a filter that reports refused calls",
		"use libseccomp 2.5.0 or newer on Linux 5.7 or newer"}
	libseccompOther = fault{[]*entry{&libseccompCheck},
		"cannot be sure of libseccomp: it is older than the one isolate was built with",
		"names and constants the program knows may be unknown to the library",
		"install the libseccomp isolate was built with, or build isolate on this machine"}
	memfdForbidden = fault{[]*entry{&memfdNoexec},
		"cannot execute a program from memory",
		"isolate runs from a sealed copy of itself so that no sandbox can ever overwrite its file",
		"as administrator: sysctl -w vm.memfd_noexec=1, and the same line in /etc/sysctl.d/ to keep it"}
	memfdRefused = fault{[]*entry{&memfdExec},
		"cannot start isolate from a sealed copy in memory",
		"isolate runs from a sealed copy of itself so that no sandbox can ever overwrite its file",
		"see memfd.noexec; otherwise a security module refuses it: permit isolate to execute memfd files"}
)

// Security modules.
var (
	apparmorConfines = fault{[]*entry{&lsmApparmor},
		"cannot know what the AppArmor profile around this process refuses",
		"mounting or executing may be denied with EACCES in places that work elsewhere",
		"start it outside of that profile, or let the profile permit userns, mount, umount, pivot_root and the files of the root file system (docs/doctor.md)"}
	selinuxConfines = fault{[]*entry{&lsmSELinux},
		"cannot know what the SELinux domain of this process refuses",
		"mounting or executing may be denied with EACCES in places that work elsewhere",
		"start it from an unconfined domain, or allow what `ausearch -m avc -ts recent | audit2allow` names (docs/doctor.md)"}
)

// Exposed surface. The system-call filter closes all of it for programs in a
// sandbox; what is named here is the second wall behind it.
const onlyFilter = "only the system-call filter keeps sandboxed programs from it"

var surfaceModules = []*entry{&surfaceAlg, &surfaceRxrpc, &surfaceEsp4, &surfaceEsp6}

var (
	moduleReachable = fault{surfaceModules,
		"cannot count on the kernel being without it",
		"page-cache bugs were reached through it; " + onlyFilter,
		"if nothing here uses it, as administrator: `install MODULE /bin/false` in /etc/modprobe.d/, with the module named above"}
	ioUringOpen = fault{[]*entry{&surfaceIoUring},
		"cannot count on io_uring being off",
		onlyFilter,
		"if nothing here uses it, as administrator: sysctl -w kernel.io_uring_disabled=2"}
	bpfOpen = fault{[]*entry{&surfaceBPF},
		"cannot count on BPF being closed to ordinary users",
		onlyFilter + ", and no distribution leaves it open",
		"as administrator: sysctl -w kernel.unprivileged_bpf_disabled=2"}
	uffdOpen = fault{[]*entry{&surfaceUffd},
		"cannot count on kernel faults being handled in the kernel",
		"exploits use it to win races; " + onlyFilter,
		"as administrator: sysctl -w vm.unprivileged_userfaultfd=0"}
	perfOpen = fault{[]*entry{&surfacePerf},
		"cannot count on kernel profiling being closed to ordinary users",
		onlyFilter,
		"as administrator: sysctl -w kernel.perf_event_paranoid=2 (3 on Debian and Ubuntu closes it wholly)"}
	dmesgOpen = fault{[]*entry{&surfaceDmesg},
		"cannot count on the kernel log being closed",
		"it holds addresses and names; " + onlyFilter,
		"as administrator: sysctl -w kernel.dmesg_restrict=1"}
	kptrOpen = fault{[]*entry{&surfaceKptr},
		"cannot count on kernel addresses being hidden",
		"files of /proc show them to some users; in a sandbox those files are covered",
		"as administrator: sysctl -w kernel.kptr_restrict=1"}
	tiocstiOpen = fault{[]*entry{&surfaceTiocsti},
		"cannot count on terminals taking input from keyboards only",
		"a program with the caller's terminal could type commands; isolate gives none away, and the filter refuses the call",
		"as administrator, with Linux 6.2 or newer: sysctl -w dev.tty.legacy_tiocsti=0"}
	ptraceOpen = fault{[]*entry{&surfaceYama},
		"cannot count on processes of {user} being closed to each other",
		"who escapes a sandbox could trace the other processes of its user",
		"as administrator, with the Yama security module: sysctl -w kernel.yama.ptrace_scope=1"}
	corePiped = fault{[]*entry{&surfaceCorePipe},
		"cannot keep crash dumps of this host from a program of the host",
		"a program running as root parses memory of crashed programs; sandboxed programs run with RLIMIT_CORE=1, with which the kernel starts no such program",
		""}
	cpuVulnerable = fault{[]*entry{&surfaceCPU},
		"cannot close every side channel of this processor",
		"programs may read data of others through it; the kernel says it does not mitigate the ones named",
		"update kernel and microcode, do not boot with mitigations=off, and keep secrets on other machines"}
	smtActive = fault{[]*entry{&surfaceSMT},
		"cannot keep other programs off a sandbox's processor core",
		"two programs on one core can observe each other's timing",
		"for hostile multi-tenant use: boot with nosmt, or put sandboxes on cores of their own (core scheduling)"}
)

// Runtime directory.
var (
	rundirIsLink = fault{[]*entry{&rundirLink},
		"cannot use a symbolic link as the runtime directory",
		"who can change the link decides where isolate writes",
		"name the directory itself, or set XDG_RUNTIME_DIR"}
	rundirForeign = fault{[]*entry{&rundirOwner},
		"cannot use a runtime directory of another user",
		"its owner could exchange everything in it",
		"set XDG_RUNTIME_DIR to a directory of {user} with mode 0700 (/run/user/{uid} in a systemd session)"}
	rundirNoDir = fault{[]*entry{&rundirOwner},
		"cannot make the runtime directory",
		"sockets and container state need a place that only {user} can enter",
		"set XDG_RUNTIME_DIR to a directory of {user} with mode 0700 (/run/user/{uid} in a systemd session)"}
	rundirOpen = fault{[]*entry{&rundirMode},
		"cannot use a runtime directory that others can enter",
		"its sockets give control over sandboxes",
		"chmod 0700 {dir}"}
	rundirLoose = fault{[]*entry{&rundirParent},
		"cannot trust a directory above the runtime directory",
		"it is somebody else's, or others can write there and it is not sticky, so they can put their own directory in its place",
		"chmod +t the directory named above, or set XDG_RUNTIME_DIR"}
	rundirNoexec = fault{[]*entry{&rundirMount},
		"cannot execute anything in the runtime directory",
		"root file systems prepared below it cannot be executed from",
		"set XDG_RUNTIME_DIR, or name a runtime directory on a mount without noexec"}
	rundirRemote = fault{[]*entry{&rundirLocal},
		"cannot rely on a network file system for the runtime directory",
		"locks, sockets and ids of user namespaces do not hold there",
		"set XDG_RUNTIME_DIR to a local directory, best a tmpfs"}
	rundirFull = fault{[]*entry{&rundirSpace},
		"cannot store run-time state",
		"sandboxes fail to start when the runtime directory is full",
		"free space on its file system"}
	rundirPeers = fault{[]*entry{&rundirShared},
		"cannot keep mounts made there in this mount namespace from others",
		"isolate mounts only in private namespaces of its own; a mount made beside it would be seen elsewhere",
		""}
)

// Limits.
var (
	inotifyRefused = fault{[]*entry{&inotifyWatch},
		"cannot watch a directory of a sandbox",
		"tools cannot be called: requests of the program are not noticed",
		"raise fs.inotify.max_user_instances (EMFILE) or fs.inotify.max_user_watches (ENOSPC), or stop what uses them up"}
	inotifyLow = fault{[]*entry{&inotifyInstances, &inotifyWatches, &inotifyQueue},
		"cannot watch the directories of many runs at once",
		"the limit is shared by everything {user} runs; a run over it fails to start its bridge",
		"run fewer sandboxes at once, or as administrator raise the setting named above"}
	rlimitLow = fault{[]*entry{&limitFiles, &limitProcesses},
		"cannot run many sandboxes at once",
		"the limit holds for everything {user} runs; a run over it fails to start",
		"run fewer sandboxes at once, or raise the limit (limits.conf, or LimitNOFILE= and LimitNPROC= of a service)"}
)

// Networks of sandboxes.
var (
	netDeviceAbsent = fault{[]*entry{&netDevice},
		"cannot give a sandbox a network: this machine has no TUN device",
		"policies with mode restricted or full are refused; without a network everything runs",
		"as administrator: modprobe tun, and a file in /etc/modules-load.d/ to keep it; give a container the device: --device /dev/net/tun"}
	netDeviceClosed = fault{[]*entry{&netDevice},
		"cannot give a sandbox a network: {user} may not open /dev/net/tun",
		"policies with mode restricted or full are refused; without a network everything runs",
		"as administrator: chmod 0666 /dev/net/tun, which is what most distributions have: a device in it needs rights in a network namespace"}
	netHelperAbsent = fault{[]*entry{&netHelper},
		"cannot give a sandbox a network: there is no isolate-netd",
		"policies with mode restricted or full are refused; without a network everything runs",
		"install isolate-netd beside isolate (make install does), or name it in Options.NetHelper"}
)

// Host.
var (
	clockSlow = fault{[]*entry{&hostClock},
		"cannot read the clock cheaply",
		"programs that read the time often run slower; limits still hold",
		"let the host offer tsc or its own paravirtual clock"}
	hidepidOff = fault{[]*entry{&hostHidepid},
		"cannot keep other users from seeing isolate's command lines",
		"secrets do not belong there; sandboxed programs see no process of the host either way",
		""}
	hostView = fault{[]*entry{&hostRootfs},
		"cannot rule out that host and sandbox share pages of /usr",
		"a kernel bug in the page cache could change files of the host that a program may only read",
		"for hostile multi-tenant use give sandboxes a tree of their own: --rootfs DIR"}
)

// Audit.
var (
	keyAbsent = fault{[]*entry{&auditKey},
		"cannot read the signing key",
		"the log is not signed; runs that require a signature are refused",
		"make {key} readable for {user}"}
	keyOpen = fault{[]*entry{&auditKey},
		"cannot trust a signing key that others can read or replace",
		"its signatures prove nothing",
		"chmod 0600 {key}, chown it to {user}, and make a new key if others have had it"}
	logUnwritable = fault{[]*entry{&auditLog},
		"cannot write the audit log",
		"no tool runs without a durable record: runs with tools are refused",
		"make {log} a directory that {user} can write to"}
	logFull = fault{[]*entry{&auditSpace},
		"cannot keep the audit log for long",
		"no tool runs without a durable record: runs with tools are refused once it is full",
		"free space on the file system of {log}"}
	anchorAway = fault{[]*entry{&auditAnchor},
		"cannot reach the place of the last anchor",
		"only a checkpoint kept elsewhere proves that the log was not rolled back as a whole",
		"make it reachable, or name another one"}
	anchorNone = fault{[]*entry{&auditAnchor},
		"cannot prove that the log was not rolled back as a whole",
		"only a checkpoint kept elsewhere proves it",
		"set up an anchor"}
)
