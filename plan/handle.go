package plan

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/rootfs"
)

// handle is a host path that has been opened once. What it leads to is judged
// by the handle, so that a link exchanged meanwhile changes nothing; the inode
// goes into the plan, and the cell compares it with what was mounted
// (cases.md B 21, CVE-2021-30465).
type handle struct {
	fd   int
	real string // where it leads, free of links
	stat unix.Stat_t
}

func openHandle(path string) (*handle, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	h := &handle{fd: fd}
	if h.real, err = os.Readlink(h.path()); err == nil {
		err = unix.Fstat(fd, &h.stat)
	}
	if err == nil && strings.HasSuffix(h.real, " (deleted)") && h.stat.Nlink == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// path leads to the file itself, whatever has become of its name.
func (h *handle) path() string { return "/proc/self/fd/" + strconv.Itoa(h.fd) }

func (h *handle) close() { unix.Close(h.fd) }

func (h *handle) isDir() bool { return h.stat.Mode&unix.S_IFMT == unix.S_IFDIR }

func (h *handle) regular() bool { return h.stat.Mode&unix.S_IFMT == unix.S_IFREG }

// dir is the directory for a view. It must be readable.
func (h *handle) dir(target string) (rootfs.BoundDir, error) {
	f, err := os.Open(h.path())
	if err != nil {
		return rootfs.BoundDir{}, err
	}
	f.Close()
	return rootfs.BoundDir{Source: h.real, Target: target, Inode: h.inode()}, nil
}

func (h *handle) inode() rootfs.Inode { return rootfs.Inode{Dev: h.stat.Dev, Ino: h.stat.Ino} }

// read reads a regular file of at most limit bytes.
func (h *handle) read(limit int64) ([]byte, error) {
	f, err := os.Open(h.path())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it grew over %d bytes while it was read", limit)
	}
	return b, err
}

// typeName says what a file is that is neither file nor directory.
func (h *handle) typeName() string {
	switch h.stat.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFIFO:
		return "pipe"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "device"
	}
	return "special file"
}
