package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Identity is who and where the program is inside.
type Identity struct {
	UID, GID int    // as the program sees them
	User     string // name of UID and GID
	Home     string // absolute path inside
	Hostname string
	// Resolver is the address of the sandbox's name server; empty means none.
	Resolver string
}

// Machine is what the program is told of the machine in place of the host's
// own figures: what it was granted.
type Machine struct {
	CPUs   int   // processors; at least 1
	Quota  int   // cpu.max quota in microseconds per 100 ms; 0 means "max"
	Memory int64 // bytes
	// NodeModules is what /node_modules leads to, where JavaScript looks for
	// modules last; empty means that there is none.
	NodeModules string
}

// machineID is fixed: an id that differs from run to run or host to host
// would tell the program where it is.
const machineID = "69736f6c6174650000000000000000aa"

// identityFiles are the generated files of /etc: no host user, host name,
// name server or machine id.
func identityFiles(t *tree, id Identity) {
	nobody := "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	t.file("/etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n%s%s:x:%d:%d::%s:/bin/sh\n", nobody, id.User, id.UID, id.GID, id.Home), 0o644)
	t.file("/etc/group", fmt.Appendf(nil, "root:x:0:\nnogroup:x:65534:\n%s:x:%d:\n", id.User, id.GID), 0o644)
	t.file("/etc/hosts", fmt.Appendf(nil, "127.0.0.1 localhost %[1]s\n::1 localhost ip6-localhost %[1]s\n", id.Hostname), 0o644)
	t.file("/etc/hostname", []byte(id.Hostname+"\n"), 0o644)
	hosts, resolv := "files", ""
	if id.Resolver != "" {
		// single-request: otherwise the C library sends both of its questions
		// with sendmmsg, which the profiles do not have
		hosts, resolv = "files dns", "nameserver "+id.Resolver+"\noptions edns0 single-request timeout:5\n"
	}
	t.file("/etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nshadow: files\nhosts: "+hosts+"\nnetworks: files\nprotocols: files\nservices: files\n"), 0o644)
	t.file("/etc/machine-id", []byte(machineID+"\n"), 0o444)
	t.file("/etc/resolv.conf", []byte(resolv), 0o644)
	if id.Resolver != "" {
		t.dir("/run/isolate") // for certificates of the network process
	}
	t.file("/etc/host.conf", []byte("multi on\n"), 0o644)
	t.file("/etc/environment", nil, 0o644)
}

// machineFiles are the few files of /sys that run times read to size their
// pools and heaps, as plain files that name the granted figures, and the
// stand-ins that are bound over files of /proc which would show the host's
// load and model. The latter stand in StandIns.
func machineFiles(t *tree, m Machine, flags string) {
	cpus := "0"
	if m.CPUs > 1 {
		cpus = fmt.Sprintf("0-%d", m.CPUs-1)
	}
	for _, name := range []string{"online", "possible", "present"} {
		t.file("/sys/devices/system/cpu/"+name, []byte(cpus+"\n"), 0o444)
	}
	quota := "max 100000\n"
	if m.Quota > 0 {
		quota = fmt.Sprintf("%d 100000\n", m.Quota)
	}
	t.file("/sys/fs/cgroup/cgroup.controllers", []byte("cpu memory pids\n"), 0o444)
	t.file("/sys/fs/cgroup/cpu.max", []byte(quota), 0o444)
	t.file("/sys/fs/cgroup/memory.max", fmt.Appendf(nil, "%d\n", m.Memory), 0o444)

	kb := m.Memory / 1024
	var info, stat strings.Builder
	stat.WriteString("cpu  0 0 0 0 0 0 0 0 0 0\n")
	for i := range m.CPUs {
		fmt.Fprintf(&info, "processor\t: %d\nmodel name\t: sandbox\ncpu MHz\t\t: 1000.000\nphysical id\t: 0\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\nflags\t\t: %s\n\n", i, m.CPUs, i, m.CPUs, flags)
		fmt.Fprintf(&stat, "cpu%d 0 0 0 0 0 0 0 0 0 0\n", i)
	}
	stat.WriteString("intr 0\nctxt 0\nbtime 0\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n")
	t.file(StandIns+"/cpuinfo", []byte(info.String()), 0o444)
	t.file(StandIns+"/stat", []byte(stat.String()), 0o444)
	t.file(StandIns+"/meminfo", fmt.Appendf(nil, "MemTotal: %15d kB\nMemFree: %16d kB\nMemAvailable: %11d kB\nBuffers: %16d kB\nCached: %17d kB\nSwapCached: %13d kB\nSwapTotal: %14d kB\nSwapFree: %15d kB\n", kb, kb, kb, 0, 0, 0, 0, 0), 0o444)
	t.file(StandIns+"/uptime", []byte("1.00 1.00\n"), 0o444)
	t.file(StandIns+"/loadavg", []byte("0.00 0.00 0.00 1/1 1\n"), 0o444)
}

// StandIns is the directory of the files that are bound over files of /proc,
// and Empty the directory that is bound over directories.
const (
	StandIns = "/sys/.proc"
	Empty    = "/sys/.empty"
)

// StandInNames are the files of /proc that have a stand-in. Libcontainer
// permits binds on exactly these and a few more (trap T10).
var StandInNames = []string{"cpuinfo", "loadavg", "meminfo", "stat", "uptime"}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
