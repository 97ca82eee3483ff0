// Package dirfd opens, makes and renames files beneath a directory handle, in
// a tree that a hostile program may be changing at the same moment.
//
// It never follows a symbolic link, never leaves the handle's directory or its
// mount, never blocks on a FIFO, and never becomes a controlling terminal's
// owner. What it opens may still be anything: a caller that wants bytes asks
// Regular afterwards, because only the open handle says what was opened.
//
// It does not walk, copy or decide; packages bridge and workspace do. It does
// not use os.Root, whose escapes of 2025 and 2026 (CVE-2025-22873,
// CVE-2026-32282, CVE-2026-39822) are why this layer exists.
//
// Kernel: openat2 of Linux 5.6. Where an outer seccomp filter hides it, a walk
// by single components gives the same answers on any kernel with O_PATH; only
// the check for a bind mount of the same file system needs statx of 5.8.
package dirfd

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Open opens the directory at a path that the caller trusts, following links
// in it as the kernel does. It is the only function here that takes a path of
// the whole system; everything hostile starts from a handle.
func Open(dir string) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open directory %q: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// Reopen opens the directory of a handle anew for reading. The result has its
// own read position and can be listed even when dir was opened with O_PATH.
func Reopen(dir *os.File) (*os.File, error) {
	f, err := open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot reopen directory: %w", err)
	}
	return f, nil
}

// OpenBeneath opens the existing rel beneath dir. O_NOFOLLOW, O_NONBLOCK,
// O_NOCTTY and O_CLOEXEC are added to flags. Flags that create or truncate are
// refused: CreateBeneath creates, and nothing here truncates.
//
// The error wraps a *NameError when rel is not a path CheckRel takes, and the
// kernel's errno otherwise: ELOOP or ENOTDIR for a symbolic link, EXDEV for a
// mount point, EAGAIN for a file under a lease.
func OpenBeneath(dir *os.File, rel string, flags int) (*os.File, error) {
	if err := CheckRel(rel); err != nil {
		return nil, fmt.Errorf("cannot open: %w", err)
	}
	if flags&(unix.O_CREAT|unix.O_TRUNC) != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return nil, fmt.Errorf("cannot open %q: flags that create or truncate: %w", rel, unix.EINVAL)
	}
	f, err := open(dir, rel, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", rel, err)
	}
	return f, nil
}

// CreateBeneath makes the file rel beneath dir and opens it for writing. It
// fails with EEXIST when anything of that name is there, a dangling link
// included. perm holds permission bits only, and they are set exactly: the
// process's umask plays no part.
func CreateBeneath(dir *os.File, rel string, perm uint32) (*os.File, error) {
	if err := checkNew(rel, perm); err != nil {
		return nil, fmt.Errorf("cannot create: %w", err)
	}
	f, err := open(dir, rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, perm)
	if err == nil {
		err = setPerm(f, perm)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create %q: %w", rel, err)
	}
	return f, nil
}

// MkdirBeneath makes the directory rel beneath dir, whose parent must exist,
// and opens it for reading. perm is as in CreateBeneath.
//
// A program that changes the tree may put another directory in its place
// before it is opened; the handle is then of that one, still beneath dir.
func MkdirBeneath(dir *os.File, rel string, perm uint32) (*os.File, error) {
	if err := checkNew(rel, perm); err != nil {
		return nil, fmt.Errorf("cannot make directory: %w", err)
	}
	f, err := mkdir(dir, rel, perm)
	if err != nil {
		return nil, fmt.Errorf("cannot make directory %q: %w", rel, err)
	}
	return f, nil
}

func mkdir(dir *os.File, rel string, perm uint32) (*os.File, error) {
	parent, name := path.Split(rel)
	if parent != "" {
		p, err := open(dir, path.Clean(parent), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		dir = p
	}
	// 0700 first, so that a perm without the read bit can still be opened.
	err := control(dir, func(fd int) error { return unix.Mkdirat(fd, name, 0o700) })
	if err != nil {
		return nil, err
	}
	f, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return f, setPerm(f, perm)
}

func checkNew(rel string, perm uint32) error {
	if perm&^0o777 != 0 {
		return fmt.Errorf("mode %#o has more than permission bits: %w", perm, unix.EINVAL)
	}
	return CheckRel(rel)
}

// setPerm undoes what the umask took, and closes f when it cannot.
func setPerm(f *os.File, perm uint32) error {
	err := Chmod(f, perm)
	if err != nil {
		f.Close()
	}
	return err
}

// Symlink makes a symbolic link called name in dir that holds text. The text
// is stored, never resolved.
func Symlink(dir *os.File, text, name string) error {
	return named(dir, "make link", name, func(fd int) error {
		return unix.Symlinkat(text, fd, name)
	})
}

// Readlink reads the text of the symbolic link called name in dir, at most
// limit bytes of it.
func Readlink(dir *os.File, name string, limit int) (string, error) {
	buf := make([]byte, limit)
	var n int
	err := named(dir, "read link", name, func(fd int) (err error) {
		n, err = unix.Readlinkat(fd, name, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Remove removes the file, link or empty directory called name in dir.
func Remove(dir *os.File, name string) error {
	return named(dir, "remove", name, func(fd int) error {
		err := unix.Unlinkat(fd, name, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// Rename moves the entry from of fromDir to the name to in toDir; links are
// moved, not followed. flags are those of renameat2: 0 replaces, and
// unix.RENAME_NOREPLACE fails with EEXIST when the new name is taken.
func Rename(fromDir *os.File, from string, toDir *os.File, to string, flags uint) error {
	return named(fromDir, "rename", from, func(ffd int) error {
		return named(toDir, "rename to", to, func(tfd int) error {
			return unix.Renameat2(ffd, from, tfd, to, flags)
		})
	})
}

// named runs one call on a single checked name, which cannot leave dir.
func named(dir *os.File, verb, name string, call func(fd int) error) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("cannot %s: %w", verb, err)
	}
	if err := control(dir, call); err != nil {
		return fmt.Errorf("cannot %s %q: %w", verb, name, err)
	}
	return nil
}

// control lends out the descriptor of f and keeps it from being closed, and
// its number from being used again, until call returns. Fd would not.
func control(f *os.File, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := c.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return os.ErrClosed // the only reason Control has
	}
	return callErr
}
