package dirfd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The answers of Regular to an inode that is not to be read.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrHardLink   = errors.New("has more than one name (hard link)")
)

// Regular looks at an open handle and returns what it is of. It is an error
// unless it is a regular file with exactly one name: ErrNotRegular and
// ErrHardLink are wrapped, and ENOENT for a file removed since it was opened.
func Regular(f *os.File) (unix.Stat_t, error) {
	st, err := Stat(f)
	switch {
	case err != nil:
		return st, err
	case KindOf(st.Mode) != File:
		return st, fmt.Errorf("%w but a %s", ErrNotRegular, KindOf(st.Mode))
	case st.Nlink > 1:
		return st, ErrHardLink
	case st.Nlink == 0:
		return st, fmt.Errorf("removed after it was opened: %w", unix.ENOENT)
	}
	return st, nil
}

// Stat is fstat of an open handle.
func Stat(f *os.File) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := control(f, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return st, fmt.Errorf("cannot stat: %w", err)
	}
	return st, nil
}

// Chmod sets the mode of what is open. It needs a handle that was not opened with
// O_PATH.
func Chmod(f *os.File, mode uint32) error {
	return control(f, func(fd int) error { return unix.Fchmod(fd, mode) })
}

// Lstat says what the entry called name in dir is at this moment, without
// opening it. It is for choosing what to do next, not for trusting: what an
// open then gives may be something else.
func Lstat(dir *os.File, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := named(dir, "stat", name, func(fd int) error {
		return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	})
	return st, err
}

// Same tells whether two answers of stat are of one inode. A number is used
// again only after the inode is gone, so at least one of them must be of a
// handle still open.
func Same(a, b unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// Kind is what an inode is.
type Kind int

// The kinds of inode.
const (
	Unknown Kind = iota
	File
	Directory
	Link
	FIFO
	Socket
	Device
)

// KindOf reads the kind from st_mode.
func KindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Link
	case unix.S_IFIFO:
		return FIFO
	case unix.S_IFSOCK:
		return Socket
	case unix.S_IFCHR, unix.S_IFBLK:
		return Device
	}
	return Unknown
}

// String is the kind in words: "symbolic link".
func (k Kind) String() string {
	switch k {
	case File:
		return "regular file"
	case Directory:
		return "directory"
	case Link:
		return "symbolic link"
	case FIFO:
		return "FIFO"
	case Socket:
		return "socket"
	case Device:
		return "device"
	}
	return "thing of unknown kind"
}

// levelsMax bounds the way up in Inside: no path the kernel takes has more
// components.
const levelsMax = MaxPath / 2

// Inside tells whether dir is the directory that outer was taken of, or lies
// below it, by going up from dir through "..". It compares inodes, so a bind
// mount or a link on the way to either hides nothing. The error is EACCES when
// a directory on the way may not be searched.
func Inside(dir *os.File, outer unix.Stat_t) (bool, error) {
	var last unix.Stat_t
	at, err := step(dir, ".")
	for range levelsMax {
		if err != nil {
			return false, fmt.Errorf("cannot open the parent directory: %w", err)
		}
		st, statErr := Stat(at)
		// The root is its own parent.
		if statErr != nil || Same(st, outer) || Same(st, last) {
			at.Close()
			return statErr == nil && Same(st, outer), statErr
		}
		below := at
		at, err = step(below, "..")
		below.Close()
		last = st
	}
	at.Close()
	return false, fmt.Errorf("cannot find the root: %w", unix.ENAMETOOLONG)
}

func step(dir *os.File, to string) (*os.File, error) {
	fd := -1
	err := control(dir, func(at int) (err error) {
		fd, err = unix.Openat(at, to, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), to), nil
}
