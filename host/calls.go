package host

import (
	"io/fs"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls is what the running kernel answers to the system calls sandboxes need.
type Calls struct {
	// Release is the kernel's release, as uname -r prints it.
	Release string `json:"release"`
	// Errors holds the calls that do not work, by the names of features.
	// ENOSYS means that the kernel, or a filter around this process, does
	// not have the call.
	Errors map[string]Errno `json:"errors"`
	// Landlock is the version of its interface; 0 means there is none.
	Landlock int `json:"landlock"`
}

// feature is a system call or a part of one, and since when the kernel has it.
type feature struct {
	name  string
	call  string
	since string
	try   func() error
}

// features are tried without effect: each call either takes and gives back a
// descriptor or is given arguments that are refused after the kernel has
// recognised the call. The versions are those of the manual pages.
var features = [...]feature{
	{"openat2", "openat2", "5.6", tryOpenat2},
	{"pidfd", "pidfd_open", "5.3", tryPidfd},
	{"close_range", "close_range", "5.9", tryCloseRange},
	{"clone3", "clone3", "5.3", tryClone3},
	{"seccomp-filter", "seccomp", "3.17", trySeccomp},
	{"seccomp-notify", "seccomp with a listener", "5.0", tryListener},
	{"seccomp-killable", "seccomp with a listener and killable waits", "5.19", tryKillable},
	{"mount-api", "mount_setattr", "5.12", tryMountSetattr},
	{"open_tree", "open_tree", "5.2", tryOpenTree},
	{"io_uring", "io_uring_setup", "5.1", tryIoUring},
}

// featureOf finds a feature by name.
func featureOf(name string) feature {
	for _, f := range features {
		if f.name == name {
			return f
		}
	}
	return feature{name: name, call: name}
}

// runningKernel is the Kernel of this machine.
type runningKernel struct{ timeout time.Duration }

var _ Kernel = runningKernel{}

func (runningKernel) Calls() Calls {
	c := Calls{Errors: map[string]Errno{}}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		c.Release = unix.ByteSliceToString(u.Release[:])
	}
	for _, f := range features {
		if err := f.try(); err != nil {
			c.Errors[f.name] = errnoOf(err)
		}
	}
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e == 0 {
		c.Landlock = int(v)
	}
	return c
}

func (runningKernel) File(path string) (File, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return File{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	f := File{Mode: modeOf(st.Mode), UID: int(st.Uid)}
	f.Write = errnoOf(unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS))
	var fsys unix.Statfs_t
	if unix.Statfs(path, &fsys) == nil {
		f.Free = fsys.Bavail * uint64(fsys.Bsize)
	}
	return f, nil
}

// modeOf keeps the parts of a mode that the checks look at.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	return mode
}

// unlessErr passes the answers with which a kernel that has the call refuses
// the arguments.
func unlessErr(e unix.Errno, known ...unix.Errno) error {
	for _, k := range known {
		if e == k {
			return nil
		}
	}
	if e == 0 {
		return nil
	}
	return e
}

func tryOpenat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func tryPidfd() error {
	fd, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryCloseRange asks for a range that ends before it begins: EINVAL.
func tryCloseRange() error {
	_, _, e := unix.RawSyscall(unix.SYS_CLOSE_RANGE, 1<<32-1, 0, 0)
	return unlessErr(e, unix.EINVAL)
}

// tryClone3 passes a structure of size 0, which is refused before anything is
// cloned: EINVAL.
func tryClone3() error {
	_, _, e := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return unlessErr(e, unix.EINVAL)
}

// seccompTakes passes no program; flags are looked at first, so that EFAULT
// says that they are known.
func seccompTakes(flags uintptr) error {
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	return unlessErr(e, unix.EFAULT)
}

func trySeccomp() error  { return seccompTakes(0) }
func tryListener() error { return seccompTakes(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER) }
func tryKillable() error {
	return seccompTakes(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

// tryOpenTree passes flags that do not exist: EINVAL.
func tryOpenTree() error {
	var path [1]byte
	_, _, e := unix.RawSyscall(unix.SYS_OPEN_TREE, ^uintptr(0), uintptr(unsafe.Pointer(&path)), 1<<30)
	return unlessErr(e, unix.EINVAL)
}

// tryMountSetattr passes a structure of size 0: EINVAL.
func tryMountSetattr() error {
	var path [1]byte
	_, _, e := unix.RawSyscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), uintptr(unsafe.Pointer(&path)), 0, 0, 0, 0)
	return unlessErr(e, unix.EINVAL)
}

// tryIoUring passes no parameters: EFAULT.
func tryIoUring() error {
	_, _, e := unix.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	return unlessErr(e, unix.EFAULT, unix.EINVAL)
}
