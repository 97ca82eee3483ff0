// Package namespaces chooses the namespaces and id maps of cells and
// sandboxes, and opens and compares namespace handles.
//
// It creates nothing: libcontainer's nsexec makes a cell's namespaces and the keeper
// those of a sandbox, both from the values here. It needs Linux with user
// namespaces.
package namespaces

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Kind is a kind of namespace, named as in /proc/PID/ns.
type Kind string

// The kinds a sandbox has its own of. There is no option to share one with
// the host: an option to join the host's would be used.
const (
	User   Kind = "user"
	Mount  Kind = "mnt"
	PID    Kind = "pid"
	Net    Kind = "net"
	IPC    Kind = "ipc"
	UTS    Kind = "uts"
	Cgroup Kind = "cgroup"
)

// All lists every kind, in the order of /proc/PID/ns.
var All = []Kind{Cgroup, IPC, Mount, Net, PID, User, UTS}

// SandboxFlags are the clone(2) flags of a sandbox. The cgroup namespace is
// not among them: it must be made by the process that already is in the leaf.
const SandboxFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// IDMap maps Size ids from Inside on to ids from Outside on.
type IDMap struct{ Inside, Outside, Size int }

func (m IDMap) String() string { return fmt.Sprintf("%d %d %d", m.Inside, m.Outside, m.Size) }

// Mode says whose kernel user id a program has.
type Mode string

// The modes.
const (
	// SingleID is the ordinary case: the caller's own id, seen inside as
	// another number, with no capability over anything.
	SingleID Mode = "single-id"
	// Dropped is the case of a caller that is root: an id that owns nothing
	// on this host, so that no program runs as the kernel's uid 0.
	Dropped Mode = "dropped"
)

// droppedID is what root's sandboxes run as: above the ids that
// distributions hand out and below 2^31, which some programs take for
// negative.
const droppedID = 2000000111

// Identity is the choice of ids.
type Identity struct {
	Mode Mode `json:"mode"`
	// HostUID and HostGID are the kernel's ids of every process of the cell.
	HostUID int `json:"host_uid"`
	HostGID int `json:"host_gid"`
	// UID and GID are what the program sees.
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Ids of a program inside. Not 0: some programs behave differently as root,
// and an id that is not 0 gains no capability by execve.
const (
	InsideUID = 1000
	InsideGID = 1000
)

// Choose picks the identity for a caller with these effective ids.
func Choose(euid, egid int) Identity {
	id := Identity{Mode: SingleID, HostUID: euid, HostGID: egid, UID: InsideUID, GID: InsideGID}
	if euid == 0 {
		id.Mode, id.HostUID, id.HostGID = Dropped, droppedID, droppedID
	}
	return id
}

// CellMaps maps id 0 of the cell to the host id; libcontainer needs 0 mapped
// (trap T11).
func (id Identity) CellMaps() (uid, gid IDMap) {
	return IDMap{0, id.HostUID, 1}, IDMap{0, id.HostGID, 1}
}

// SandboxMaps maps the program's id to id 0 of the cell.
func (id Identity) SandboxMaps() (uid, gid IDMap) {
	return IDMap{id.UID, 0, 1}, IDMap{id.GID, 0, 1}
}

// Limits are the user.max_* settings inside a sandbox: no further namespace
// can be made even if the filter had a hole, and a program cannot use up the
// host user's inotify instances.
var Limits = []struct {
	Name  string
	Value int
}{
	{"max_cgroup_namespaces", 0}, {"max_ipc_namespaces", 0}, {"max_mnt_namespaces", 0},
	{"max_net_namespaces", 0}, {"max_pid_namespaces", 0}, {"max_time_namespaces", 0},
	{"max_user_namespaces", 0}, {"max_uts_namespaces", 0},
	{"max_inotify_instances", 16}, {"max_inotify_watches", 4096},
}

// Inode identifies a namespace of this kind, of which link is what the symbolic
// link in /proc/PID/ns says: "net:[4026531840]".
func (k Kind) Inode(link string) (uint64, error) {
	number, ok := strings.CutPrefix(link, string(k)+":[")
	number, closed := strings.CutSuffix(number, "]")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || !closed || err != nil {
		return 0, fmt.Errorf("cannot tell which %s namespace %q is", k, link)
	}
	return n, nil
}

// OwnInode is that of the calling process.
func (k Kind) OwnInode() (uint64, error) {
	link, err := os.Readlink("/proc/self/ns/" + string(k))
	if err != nil {
		return 0, fmt.Errorf("cannot look at own namespace: %w", err)
	}
	return k.Inode(link)
}

// SameNet tells whether two processes share a network namespace.
func SameNet(a, b int) (bool, error) {
	ha, err := netns.GetFromPid(a)
	if err != nil {
		return false, fmt.Errorf("cannot open network namespace of process %d: %w", a, err)
	}
	defer ha.Close()
	hb, err := netns.GetFromPid(b)
	if err != nil {
		return false, fmt.Errorf("cannot open network namespace of process %d: %w", b, err)
	}
	defer hb.Close()
	return ha.Equal(hb), nil
}
