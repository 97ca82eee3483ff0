package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// reason puts an error of the source into words for Why. The name is in the
// entry already, so only the cause is given.
func reason(err error) string {
	switch {
	case errors.Is(err, unix.EXDEV):
		return "another mount"
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EINVAL):
		return "became something else while it was copied"
	case errors.Is(err, unix.ENOENT):
		return "was removed while it was copied"
	case errors.Is(err, unix.EAGAIN):
		return "busy: a program holds a lease on it, or changes the tree without pause"
	case errors.Is(err, unix.EACCES):
		return "may not be read: its mode or owner forbids it"
	case errors.Is(err, dirfd.ErrNotRegular), errors.Is(err, dirfd.ErrHardLink):
		return err.Error()
	}
	return "cannot be read: " + cause(err)
}

// nameFault is why a name is not used, or "" for no error.
func nameFault(err error) string {
	var bad *dirfd.NameError
	if errors.As(err, &bad) {
		return bad.Why
	}
	return ""
}

// cause is the innermost text of an error of the system.
func cause(err error) string {
	var errno unix.Errno
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &pathErr):
		return pathErr.Err.Error()
	}
	return err.Error()
}

// hostName says why the host's file system does not take a name that the
// sandbox's did, or "" when the error is another. Not all are alike.
func hostName(err error) string {
	switch {
	case errors.Is(err, unix.EEXIST):
		return "the host's file system takes the name for one that is there already"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EILSEQ):
		return "the host's file system does not take the name"
	}
	return ""
}

// hostFull adds the remedy to an error of the output directory.
func hostFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: the host's file system is full; make room or give a directory elsewhere", err)
	}
	return err
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// shown is a path as it is, or with its bytes escaped when it is not fit to be
// shown.
func shown(rel string) string {
	if rel == "" || dirfd.CheckRel(rel) == nil {
		return rel
	}
	return escaped(rel)
}

func escaped(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// filePerm keeps the execute bits, takes the write bits of others away, and
// lets the owner read. Setuid, setgid and sticky go.
func filePerm(mode uint32) uint32 { return mode&0o755 | 0o400 }

// dirPerm is filePerm for a directory, which its owner can always use.
func dirPerm(mode uint32) uint32 { return mode&0o755 | 0o700 }
