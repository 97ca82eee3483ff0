package dirfd

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// always is added to every open. O_NONBLOCK keeps a FIFO, or a file whose
// holder has a lease, from stopping us; O_NOCTTY keeps a terminal from
// becoming ours.
const always = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS |
	unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// tries bounds the repeats of a call that answers EAGAIN. openat2 does so when
// a rename elsewhere on the system may have changed the path under its walk;
// one repeat is nearly always enough. A lease answers EAGAIN as well, and
// lasts: the bound is what ends that.
const tries = 16

// retry repeats call after EINTR without bound and after EAGAIN within tries.
func retry(call func() (int, error)) (int, error) {
	for again := 1; ; {
		n, err := call()
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && again < tries:
			again++
		default:
			return n, err
		}
	}
}

// open opens a path that was checked already, or ".".
func open(dir *os.File, rel string, flags int, perm uint32) (*os.File, error) {
	flags |= always
	if flags&unix.O_PATH != 0 {
		// openat2 refuses flags that O_PATH would ignore.
		flags &^= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(perm), Resolve: resolve}
	fd := -1
	err := control(dir, func(dirfd int) (err error) {
		fd, err = retry(func() (int, error) { return unix.Openat2(dirfd, rel, &how) })
		if err == unix.ENOSYS || err == unix.EPERM {
			// An outer filter hides openat2; old ones say EPERM. A true
			// EPERM comes back from the walk.
			fd, err = walk(dirfd, rel, flags, perm)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// walk is open without openat2: one component at a time, so that O_NOFOLLOW
// speaks for each, and one mount, by comparing. It relies on rel having been
// checked: a component is a name, never "..".
func walk(dirfd int, rel string, flags int, perm uint32) (int, error) {
	home, err := mountOf(dirfd)
	if err != nil {
		return -1, err
	}
	at := dirfd
	for {
		name, rest, more := strings.Cut(rel, "/")
		step, mode := flags, perm
		if more {
			step, mode = unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0
		}
		next, err := retry(func() (int, error) { return unix.Openat(at, name, step, mode) })
		if at != dirfd {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		if m, err := mountOf(next); err != nil || m != home {
			unix.Close(next)
			if err == nil {
				err = unix.EXDEV
			}
			return -1, err
		}
		if !more {
			return next, nil
		}
		at, rel = next, rest
	}
}

// mount tells mounts apart: by id where the kernel gives it, else only by
// file system.
type mount struct{ dev, id uint64 }

func mountOf(fd int) (mount, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mount{}, err
	}
	m := mount{dev: st.Dev}
	var stx unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx)
	if err == nil && stx.Mask&unix.STATX_MNT_ID != 0 {
		m.id = stx.Mnt_id
	}
	return m, nil
}
