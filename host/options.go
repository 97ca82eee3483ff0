package host

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options is everything the package reads of its surroundings. The zero value
// looks at the real machine as root with an empty environment; ThisProcess
// gives the usual one.
type Options struct {
	// Root is the directory below which /proc, /sys, /etc, /lib/modules and
	// the runtime directory are looked up. Empty means "/". Everything else
	// in these Options names paths as they are below Root.
	Root string
	// UID and GID are the ids of the user sandboxes will run as.
	UID, GID int
	// Getenv looks up XDG_RUNTIME_DIR, PATH, container and
	// KUBERNETES_SERVICE_HOST. Nil means an empty environment.
	Getenv func(string) string

	// RuntimeDir is the directory for run-time state, an absolute path; it
	// need not exist yet. Empty means $XDG_RUNTIME_DIR/isolate, or a
	// directory in /tmp without XDG_RUNTIME_DIR.
	RuntimeDir string
	// RuntimeSpace is what must be free there, in bytes. Zero means 16 MiB.
	RuntimeSpace uint64
	// Rootfs is the directory sandboxes get as their root. Empty means the
	// host view.
	Rootfs string
	// Syscalls are the names the profiles use. Those the linked libseccomp
	// does not know are reported. Nil means none are looked up.
	Syscalls []string
	// Libseccomp is the library in use. Nil means the one linked in.
	Libseccomp *Libseccomp
	// Cgroups is what DetectCgroups has found for these Options already.
	// Nil means that it is to be found.
	Cgroups *Cgroups
	// Manager says whether isolate asks the user's systemd for a group itself.
	Manager Manager
	// Program is the file of isolate, an absolute path, and Caller the process
	// that called it: what Report.Setup has to name. Empty means that no
	// profile is written for it.
	Program string
	Caller  int
	// NetHelper is the program that holds the network of a sandbox. Empty
	// means that there is none.
	NetHelper string
	// Audit is where the audit log is kept. Nil means no audit is set up,
	// and nothing of it is checked.
	Audit *Audit

	// Timeout bounds each probing child. Zero means 15 s,
	// a hundred times what one takes, for machines with too much to do.
	Timeout time.Duration
	// Kernel answers what no file says. Nil means the running kernel; tests
	// of states this machine is not in bring their own.
	Kernel Kernel
}

// Manager says what the presence of the user's systemd is worth.
type Manager int

// The uses of a user manager.
const (
	// ManagerReported means that isolate does not ask it: limits need a group
	// that is there already. It is the zero value.
	ManagerReported Manager = iota
	// ManagerAsked means that isolate asks it for a scope if it has no group
	// of its own. Probes do not ask it, as that would start a unit; a socket
	// that is there makes missing groups Info in place of Fail.
	ManagerAsked
)

// Audit says where the audit log is kept.
type Audit struct {
	// Key is the file of the signing key. Empty means the log is not signed.
	Key string
	// Log is the directory of the log. Required.
	Log string
	// Space is what must be free there, in bytes. Zero means 64 MiB.
	Space uint64
	// Anchor reaches the place of the last checkpoint kept elsewhere and
	// returns why it cannot. Nil means that there is none.
	Anchor func(context.Context) error
}

// Defaults of Options. The space of the runtime directory is for sockets and
// container state of some kilobytes each; that of the log for about 100,000
// records.
const (
	defaultRuntimeSpace = 16 << 20
	defaultAuditSpace   = 64 << 20
	defaultTimeout      = 15 * time.Second
)

// ThisProcess gives the Options of the running process: its user, its
// environment, its file and its parent, everything else at its default.
func ThisProcess() Options {
	program, _ := os.Executable() // without /proc nothing runs anyway
	return Options{UID: os.Geteuid(), GID: os.Getegid(), Getenv: os.Getenv, Program: program, Caller: os.Getppid()}
}

// Kernel answers what cannot be read from a file.
type Kernel interface {
	// Calls tries the system calls sandboxes need, without effect.
	Calls() Calls
	// File looks at a file without following a final link, and at the file
	// system it is on. The path is one of the real machine or of Options.Root,
	// whichever the implementation belongs to; the error says why it cannot.
	File(path string) (File, error)
	// Child makes what a sandbox is made of in short-lived children and
	// reports how far they came. It leaves nothing behind.
	Child(ctx context.Context, a Ask) Answer
}

// File is what a Kernel says of a file.
type File struct {
	// Mode is the kind of the file and its permissions.
	Mode fs.FileMode
	// UID is its owner.
	UID int
	// Write is why the process cannot write to it; 0 if it can.
	Write Errno
	// Free is what an ordinary user can still store on its file system, in bytes.
	Free uint64
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.RuntimeSpace == 0 {
		o.RuntimeSpace = defaultRuntimeSpace
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Kernel == nil {
		o.Kernel = runningKernel{timeout: o.Timeout}
	}
	return o
}

// real is the path below Root.
func (o Options) real(path string) string {
	if o.Root == "" || o.Root == "/" {
		return path
	}
	return filepath.Join(o.Root, path)
}

func (o Options) file(path string) (File, error) { return o.Kernel.File(o.real(path)) }

// maxRead bounds what is read of one file. The largest, modules.dep and
// mountinfo of a host with thousands of mounts, are around 1 MiB.
const maxRead = 8 << 20

// read returns the content of a file without surrounding white space. It
// calls the kernel directly: Blocking reads a dozen of these small files in
// every run, and os.File would offer each of them to the poller first.
func (o Options) read(path string) (string, error) {
	path = o.real(path)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for len(b) < maxRead {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if err != nil {
			return "", &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = slices.Grow(b, 3*len(b))
		}
	}
	return strings.TrimSpace(string(b)), nil
}

// text is read for files whose absence means the same as emptiness.
func (o Options) text(path string) string {
	s, _ := o.read(path)
	return s
}

// number reads a file that holds one number; absent files give ok false. Such
// a file comes in one piece.
func (o Options) number(path string) (n int64, ok bool) {
	fd, err := unix.Open(o.real(path), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var b [32]byte
	got, err := unix.Read(fd, b[:])
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(string(bytes.TrimSpace(b[:got])), 10, 64)
	return n, err == nil
}

func (o Options) exists(path string) bool {
	_, err := os.Lstat(o.real(path))
	return err == nil
}

// sysctlPath gives "/proc/sys/kernel/x" for "kernel.x".
func sysctlPath(name string) string {
	return "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
}

// sysctl reads a setting that is a number.
func (o Options) sysctl(name string) (int64, bool) { return o.number(sysctlPath(name)) }
