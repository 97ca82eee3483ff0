package container

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/rootfs"
)

// The tapes: what the far side does, step by step. docs/startup.md walks
// through them in the same order.

var (
	atCwd   = keeper.Int(unix.AT_FDCWD)
	null    = keeper.Int(0)
	noDev   = uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	noneFS  = keeper.Str("none")
	rootDir = keeper.Str("/")
)

func mount(b *keeper.Builder, step string, source, target, fstype string, flags uintptr, data string) {
	d := null
	if data != "" {
		d = keeper.Str(data)
	}
	b.Call(step, unix.SYS_MOUNT, keeper.Str(source), keeper.Str(target), keeper.Str(fstype), keeper.Word(uint64(flags)), d)
}

func bind(b *keeper.Builder, source, target string) {
	b.Call("bind "+source+" on "+target, unix.SYS_MOUNT, keeper.Str(source), keeper.Str(target), null, keeper.Int(unix.MS_BIND|unix.MS_REC), null)
}

// restrict changes the flags of a mount.
func restrict(b *keeper.Builder, target, step string, flags uintptr) {
	b.Call(step, unix.SYS_MOUNT, null, keeper.Str(target), null, keeper.Word(uint64(unix.MS_BIND|unix.MS_REMOUNT|flags)), null)
}

func mkdir(b *keeper.Builder, path string, mode uint32) {
	b.Call("make directory "+path, unix.SYS_MKDIRAT, atCwd, keeper.Str(path), keeper.Int(int(mode)))
}

// lastCap is the kernel's highest capability. Where it cannot be read, all
// that could be are dropped; the kernel answers EINVAL to those it lacks.
var lastCap = sync.OnceValue(func() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	n, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || err2 != nil {
		return 62
	}
	return n
})

// seatTape moves a seat into the leaf whose doors are registers 1 and up.
// Register 0 is its socket. The first seat makes the cell's network its own.
func seatTape(doors int, which ordinal) (keeper.Tape, error) {
	b := keeper.NewBuilder(1 + doors)
	enterLeaf(b, 1, doors)
	if which == firstSeat {
		loopbackUp(b)
	}
	return b.Encode(keeper.MsgSeat, 0)
}

// ordinal says which seat of its cell one is.
type ordinal int

const (
	laterSeat ordinal = iota
	firstSeat
)

// enterLeaf moves the process that runs the tape, which must have one thread,
// into the leaf whose doors are the registers from first on.
func enterLeaf(b *keeper.Builder, first keeper.Reg, doors int) {
	for i := range doors {
		b.Expect("enter the cgroup leaf", 1, unix.SYS_WRITE, keeper.R(first+keeper.Reg(i)), keeper.Str("0"), keeper.Int(1))
	}
}

// sandboxTape makes the sandbox's own view and locks its init down. It runs in
// the sandbox's PID 1, in new namespaces (cloneFlags). Register 0 is the socket
// to the supervisor.
func sandboxTape(p plan.Plan, flags uint32) (keeper.Tape, error) {
	fds := 1
	if p.HasNetwork() {
		fds = 2 // register 1 is the directory of the TUN node
	}
	b := keeper.NewBuilder(fds)
	// 1. end with the seat
	b.Call("ask for a parent-death signal", unix.SYS_PRCTL, keeper.Int(unix.PR_SET_PDEATHSIG), keeper.Int(int(unix.SIGKILL)))
	// 2. become the program's user; /proc is still the cell's
	uid, gid := p.Identity.SandboxMaps()
	b.WriteFiles("/proc/self", keeper.FileText{Name: "setgroups", Text: "deny"},
		keeper.FileText{Name: "uid_map", Text: uid.String()}, keeper.FileText{Name: "gid_map", Text: gid.String()})
	// 3. a cgroup namespace of the leaf we were born in
	b.Call("make cgroup namespace", unix.SYS_UNSHARE, keeper.Int(unix.CLONE_NEWCGROUP))
	// 4. proc of the new pid namespace, and the settings that go through it
	mount(b, "mount proc on /proc", "proc", "/proc", "proc", noDev|unix.MS_NOEXEC, "")
	closeNamespaces(b)
	if p.HasNetwork() {
		openLowPorts(b)
		if p.HasIPv6() {
			quietIPv6(b)
		}
	}
	maskProc(b, p)
	// 5. the writable part: one tmpfs, so that one limit covers all of it
	writable(b, p)
	bridge := keeper.Reg(0)
	if p.Bridge {
		bridge = bridgeDir(b)
	}
	// 6. a private set of pseudo-terminals, bounded: the kernel has 3072 for all
	// devpts but the host's (kernel.pty.max less its reserve), for 64 sandboxes
	if p.Terminals {
		mount(b, "mount devpts on /dev/pts", "devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=48")
	}
	// 7. loopback, if the namespace is not its seat's, which has it; and the
	// device of a sandbox with a network
	device, netDir := keeper.Reg(0), keeper.Reg(0)
	if ownNetwork(p) {
		loopbackUp(b)
	}
	if p.HasNetwork() {
		device = networkDevice(b, 1, p)
	}
	if p.Intercepts() {
		netDir = networkFiles(b)
	}
	b.Call("set host name", unix.SYS_SETHOSTNAME, keeper.Str(p.Hostname), keeper.Int(len(p.Hostname)))
	// 8. where programs work
	b.Call("enter the workspace", unix.SYS_CHDIR, keeper.Str("/workspace"))
	dir := b.CallReg("open the workspace", unix.SYS_OPENAT, atCwd, keeper.Str("/workspace"), keeper.Int(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), null)
	// 9. no capability from here on, in this process and all its children
	dropCapabilities(b)
	// 10. the limits of each process, and the filter last: the init lives
	// under them as its programs do
	for _, l := range p.Rlimits {
		if !perProgram(l) {
			setRlimit(b, l)
		}
	}
	listener := loadFilter(b, p)
	// 11. the handles, one after the other: the supervisor wakes for the first
	handOut(b, "workspace", dir)
	if p.Bridge {
		handOut(b, "bridge", bridge)
	}
	if p.HasNetwork() {
		handOut(b, "network device", device)
	}
	if p.Intercepts() {
		handOut(b, "network's files", netDir)
	}
	b.Send("report the sandbox", keeper.R(0), listener)
	return b.Encode(keeper.MsgSandbox, flags, cloneFlags(p))
}

// handOut sends a handle to the supervisor and closes it.
func handOut(b *keeper.Builder, what string, handle keeper.Reg) {
	b.Send("report the "+what, keeper.R(0), keeper.R(handle))
	b.Call("close the "+what, unix.SYS_CLOSE, keeper.R(handle))
}

// closeNamespaces sets the user.max_* limits of the new user namespace. They go
// through the sandbox's own proc: in the cell's one, the kernel would look for
// each name among those of all sandboxes there are.
func closeNamespaces(b *keeper.Builder) {
	var limits []keeper.FileText
	for _, l := range namespaces.Limits {
		limits = append(limits, keeper.FileText{Name: l.Name, Text: strconv.Itoa(l.Value)})
	}
	b.WriteFiles("/proc/sys/user", limits...)
}

// maskProc covers what of /proc shows the host, or all of it with one that has
// processes only. Files that only the host's root may read need no cover:
// nobody inside is that user.
func maskProc(b *keeper.Builder, p plan.Plan) {
	if p.Proc.PIDsOnly {
		mount(b, "mount proc with processes only on /proc", "proc", "/proc", "proc", noDev|unix.MS_NOEXEC, "subset=pid")
		return
	}
	for _, f := range p.Proc.MaskedFiles {
		bind(b, "/dev/null", f)
	}
	for _, d := range p.Proc.MaskedDirs {
		bind(b, rootfs.Empty, d)
	}
	for _, name := range rootfs.StandInNames {
		bind(b, rootfs.StandIns+"/"+name, "/proc/"+name)
	}
	bind(b, "/proc/sys", "/proc/sys")
	restrict(b, "/proc/sys", "make /proc/sys read-only", unix.MS_RDONLY|noDev|unix.MS_NOEXEC)
}

// ownInodeCount is what the parts themselves take: the root of the tmpfs and
// four directories.
const ownInodeCount = 5

// writable mounts one tmpfs and shows parts of it at the writable places. The
// part that is the workspace covers the mount point last, so that the others
// are not seen below it.
func writable(b *keeper.Builder, p plan.Plan) {
	const at = "/workspace"
	mount(b, "mount tmpfs on "+at, "tmpfs", at, "tmpfs", noDev,
		fmt.Sprintf("size=%d,nr_inodes=%d,mode=0755", p.Disk, p.Inodes+ownInodeCount))
	b.Call("set umask", unix.SYS_UMASK, keeper.Int(0))
	parts := []struct {
		name, target string
		mode         uint32
	}{{"tmp", "/tmp", 0o1777}, {"shm", "/dev/shm", 0o1777}, {"home", p.Home, 0o700}, {"workspace", at, 0o755}}
	for _, part := range parts {
		mkdir(b, at+"/"+part.name, part.mode)
		bind(b, at+"/"+part.name, part.target)
		if part.name == "shm" {
			restrict(b, "/dev/shm", "make /dev/shm noexec", noDev|unix.MS_NOEXEC)
		}
	}
	b.Call("set umask", unix.SYS_UMASK, keeper.Int(0o022))
}

// dropCapabilities drops every capability but these, and the way to get more.
func dropCapabilities(b *keeper.Builder, but ...int) {
	keepCapabilities(b, but)
	b.Call("set no_new_privs", unix.SYS_PRCTL, keeper.Int(unix.PR_SET_NO_NEW_PRIVS), keeper.Int(1), null, null, null)
}

// keepCapabilities leaves these in the bounding, effective and permitted sets,
// and none in the others.
func keepCapabilities(b *keeper.Builder, keep []int) {
	b.Call("clear ambient capabilities", unix.SYS_PRCTL, keeper.Int(unix.PR_CAP_AMBIENT), keeper.Int(unix.PR_CAP_AMBIENT_CLEAR_ALL), null, null, null)
	for c := range lastCap() + 1 {
		if !slices.Contains(keep, c) {
			b.CallUnless("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.EINVAL, unix.SYS_PRCTL, keeper.Int(unix.PR_CAPBSET_DROP), keeper.Int(c))
		}
	}
	var set [6]uint32 // effective, permitted, inheritable: their low halves, then their high
	for _, c := range keep {
		set[c/32*3] |= 1 << (c % 32)
	}
	set[1], set[4] = set[0], set[3]
	data := make([]byte, 0, 24)
	for _, w := range set {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	header := []byte{0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0} // _LINUX_CAPABILITY_VERSION_3, this process
	b.Call("drop capabilities", unix.SYS_CAPSET, keeper.Data(header), keeper.Data(data))
}

// hardFiles is this process's own hard limit of open files.
func hardFiles() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Max
}

// perProgram tells which limits a program gets that its init does not have: one
// counts the init's own time, the others would hinder the init in its work.
func perProgram(l plan.Rlimit) bool {
	return l.Resource == unix.RLIMIT_CPU || l.Resource == unix.RLIMIT_NOFILE || l.Resource == unix.RLIMIT_AS
}

func setRlimit(b *keeper.Builder, l plan.Rlimit) {
	b.Call("set the limit of "+l.Name, unix.SYS_PRLIMIT64, null, keeper.Int(l.Resource), keeper.Data(words(l.Soft, l.Hard)), null)
}

// loadFilter loads the seccomp filter. It returns the listener's register, or
// -1 if refused calls are not to be reported.
func loadFilter(b *keeper.Builder, p plan.Plan) keeper.Arg {
	flags := 0
	if p.Notify {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		if p.NotifyKillable {
			flags |= unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
		}
	}
	r := b.CallReg("load the seccomp filter", unix.SYS_SECCOMP, keeper.Int(unix.SECCOMP_SET_MODE_FILTER), keeper.Int(flags), keeper.Filter(p.Filter))
	if !p.Notify {
		return keeper.Int(-1)
	}
	return keeper.R(r)
}

// program is what the program tape needs to know.
type program struct {
	args     []string
	paths    []string // candidates for execve, in order
	env      []string
	dir      string
	noStdin  bool
	terminal bool
	size     [2]uint16
	cpus     []int // processors it may use; nil means all
	// preloaded is what a fork of the cell's template runs; nil executes paths.
	preloaded []byte
}

// programSock is where the socket of a process that is to be a program stands
// until execve.
var programSock = keeper.Int(3)

// standbyTape is what a child of init does before it is known which program it
// is to be. Register 0 is its socket, over which programTape follows. Its
// argument is the id, which Tape.With puts in.
var standbyTape = sync.OnceValues(func() (keeper.Tape, error) {
	b := keeper.NewBuilder(1)
	b.Call("make a session", unix.SYS_SETSID)
	high := b.CallReg("move the socket", unix.SYS_FCNTL, keeper.R(0), keeper.Int(unix.F_DUPFD_CLOEXEC), keeper.Int(64))
	b.Call("place the socket", unix.SYS_DUP3, keeper.R(high), programSock, keeper.Int(unix.O_CLOEXEC))
	b.ReportTo(programSock)
	closeFrom4(b)
	b.WriteFile("/proc/self/oom_score_adj", "1000")
	b.Send("report the standby", programSock, keeper.Int(-1))
	b.Next(programSock)
	return b.Encode(keeper.MsgSpawn, 0)
})

func closeFrom4(b *keeper.Builder) {
	b.Call("close every other descriptor", unix.SYS_CLOSE_RANGE, keeper.Int(4), keeper.Word(0xffffffff), null)
}

// programTape turns a standby into the program. Its registers are the streams.
func programTape(p plan.Plan, prog program) (keeper.Tape, error) {
	b := keeper.NewBuilder(prog.streams())
	b.Grow(20, 4<<10)
	// 1. descriptors 0 to 2
	if prog.terminal {
		openTerminal(b, prog)
	} else {
		placeStreams(b, prog)
	}
	closeFrom4(b)
	// 2. what is this process's own
	if len(prog.cpus) > 0 {
		mask := make([]byte, 128)
		for _, c := range prog.cpus {
			mask[c/8] |= 1 << (c % 8)
		}
		b.Call("set the processors", unix.SYS_SCHED_SETAFFINITY, null, keeper.Int(len(mask)), keeper.Data(mask))
	}
	b.Call("unblock signals", unix.SYS_RT_SIGPROCMASK, keeper.Int(2), keeper.Data(make([]byte, 8)), null, keeper.Int(8))
	b.Call("enter "+strconv.Quote(prog.dir), unix.SYS_CHDIR, keeper.Str(prog.dir))
	for _, l := range p.Rlimits {
		if perProgram(l) {
			setRlimit(b, l)
		}
	}
	// 3. the supervisor checks us from outside, then lets us go
	b.Send("report the program", programSock, keeper.Int(-1))
	b.Wait(programSock)
	if prog.preloaded != nil {
		// what execve would do: the init cannot be inspected, a program can
		b.Call("allow inspection", unix.SYS_PRCTL, keeper.Int(unix.PR_SET_DUMPABLE), keeper.Int(1), null, null, null)
		b.Call("close the socket", unix.SYS_CLOSE, programSock)
		b.Become(prog.preloaded)
		return b.Encode(keeper.MsgTape, 0)
	}
	argv, env := keeper.Strings(prog.args), keeper.Strings(prog.env)
	for _, path := range prog.paths {
		b.Exec(path, argv, env)
	}
	b.NotFound()
	return b.Encode(keeper.MsgTape, 0)
}

// streams is how many come with the program's message: none if it has a
// terminal. Standard input may be absent.
func (p program) streams() int {
	switch {
	case p.terminal:
		return 0
	case p.noStdin:
		return 2
	}
	return 3
}

// placeStreams puts the streams at 0 to 2. Without standard input, the
// sandbox's own /dev/null is: no file of the host is handed in for it.
func placeStreams(b *keeper.Builder, prog program) {
	first := keeper.Reg(0)
	if prog.noStdin {
		n := b.CallReg("open /dev/null", unix.SYS_OPENAT, atCwd, keeper.Str("/dev/null"), keeper.Int(unix.O_RDONLY|unix.O_CLOEXEC), null)
		b.Call("place descriptor 0", unix.SYS_DUP3, keeper.R(n), keeper.Int(0), null)
	} else {
		b.Call("place descriptor 0", unix.SYS_DUP3, keeper.R(first), keeper.Int(0), null)
		first++
	}
	b.Call("place descriptor 1", unix.SYS_DUP3, keeper.R(first), keeper.Int(1), null)
	b.Call("place descriptor 2", unix.SYS_DUP3, keeper.R(first+1), keeper.Int(2), null)
}

// openTerminal makes a new pseudo-terminal of the sandbox's own devpts, sends
// the master to the supervisor and makes the slave the controlling terminal.
func openTerminal(b *keeper.Builder, prog program) {
	master := b.CallReg("open /dev/pts/ptmx", unix.SYS_OPENAT, atCwd, keeper.Str("/dev/pts/ptmx"), keeper.Int(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC), null)
	b.Call("unlock the terminal", unix.SYS_IOCTL, keeper.R(master), keeper.Int(unix.TIOCSPTLCK), keeper.Data(make([]byte, 4)))
	size := []byte{byte(prog.size[0]), byte(prog.size[0] >> 8), byte(prog.size[1]), byte(prog.size[1] >> 8), 0, 0, 0, 0}
	b.Call("set the terminal's size", unix.SYS_IOCTL, keeper.R(master), keeper.Int(unix.TIOCSWINSZ), keeper.Data(size))
	slave := b.CallReg("open the terminal", unix.SYS_IOCTL, keeper.R(master), keeper.Int(unix.TIOCGPTPEER), keeper.Int(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	b.Send("report the terminal", programSock, keeper.R(master))
	b.Call("make it the controlling terminal", unix.SYS_IOCTL, keeper.R(slave), keeper.Int(unix.TIOCSCTTY), null)
	for i := range 3 {
		b.Call("place descriptor "+strconv.Itoa(i), unix.SYS_DUP3, keeper.R(slave), keeper.Int(i), null)
	}
}

// candidates are the paths execve tries for a program name, as execvp does.
func candidates(name, path string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var out []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		out = append(out, dir+"/"+name)
	}
	return out
}

// words lays out 64-bit numbers as the kernel reads them.
func words(v ...uint64) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, w := range v {
		for i := range 8 {
			b = append(b, byte(w>>(8*i)))
		}
	}
	return b
}
