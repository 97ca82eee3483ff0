package server

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a connection, as the kernel says.
type peer struct {
	uid, gid int
	pid      int // 0 if it is in a process namespace that we do not see
}

func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return peer{}, fmt.Errorf("cannot ask who is there: %w", err)
	}
	return peer{uid: int(cred.Uid), gid: int(cred.Gid), pid: int(cred.Pid)}, nil
}

// self is what this process is, as far as a caller's view of files and rights
// depends on it.
type self struct {
	uid    int
	gid    int
	groups []int
	mounts string // of the mount namespace
	root   os.FileInfo
	image  os.FileInfo
}

func whoAmI() (self, error) {
	s := self{uid: os.Geteuid(), gid: os.Getegid()}
	var err error
	if s.groups, err = os.Getgroups(); err != nil {
		return self{}, fmt.Errorf("cannot ask for our groups: %w", err)
	}
	slices.Sort(s.groups)
	if s.mounts, err = os.Readlink("/proc/self/ns/mnt"); err == nil {
		s.root, err = os.Stat("/proc/self/root")
	}
	if err == nil {
		s.image, err = os.Stat("/proc/self/exe")
	}
	if err != nil {
		return self{}, fmt.Errorf("cannot tell what this process is: %w", err)
	}
	return s, nil
}

// admits says who may ask at all: the user of the server, and root, who could
// do anything to it anyway.
func (s self) admits(p peer) bool { return p.uid == s.uid || p.uid == 0 }

// unlike says why a command of the peer would do something else if it were
// carried out here; "" is that it would not. It is no barrier: whoever is
// admitted has the rights of the server's user. It keeps promises: a command
// means the same with a server and without.
func (s self) unlike(p peer, groups []int) string {
	slices.Sort(groups)
	if p.uid != s.uid || p.gid != s.gid || !slices.Equal(groups, s.groups) {
		return "it has another user or other groups"
	}
	if why := s.elsewhere(p); why != "" {
		return why
	}
	if image, err := os.Stat(procOf(p) + "/exe"); err != nil || !os.SameFile(image, s.image) {
		return "it is another build"
	}
	return ""
}

// elsewhere says why a path means another file to the peer; "" is that it does
// not.
func (s self) elsewhere(p peer) string {
	switch mounts, err := os.Readlink(procOf(p) + "/ns/mnt"); {
	case p.pid == 0 || err != nil:
		return "its process cannot be seen"
	case mounts != s.mounts:
		return "it sees other mounts"
	}
	if root, err := os.Stat(procOf(p) + "/root"); err != nil || !os.SameFile(root, s.root) {
		return "it has another root directory"
	}
	return ""
}

func procOf(p peer) string { return "/proc/" + strconv.Itoa(p.pid) }

// maxGroups is what Linux lets a process have (NGROUPS_MAX).
const maxGroups = 65536

// groupsOf are the supplementary groups that the peer had when it connected.
func groupsOf(conn *net.UnixConn) ([]int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	list := make([]uint32, 64)
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		n, e := peerGroups(fd, list)
		if e == unix.ERANGE && n <= maxGroups {
			list = make([]uint32, n)
			n, e = peerGroups(fd, list)
		}
		if errno = e; e == 0 {
			list = list[:n]
		}
	})
	if err == nil && errno != 0 {
		err = errno
	}
	if err != nil {
		return nil, fmt.Errorf("cannot ask for the groups of who is there: %w", err)
	}
	groups := make([]int, len(list))
	for i, g := range list {
		groups[i] = int(g)
	}
	return groups, nil
}

// peerGroups fills list and says how many groups there are. Package unix has
// this option's number but no function for its type.
func peerGroups(fd uintptr, list []uint32) (int, unix.Errno) {
	size := uint32(len(list) * 4)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)), 0)
	return int(size / 4), errno
}
