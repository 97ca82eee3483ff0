package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
)

// maxPath is the longest path of a Unix socket: sun_path with its end.
const maxPath = 107

// Listen makes the socket of a server. Its directory must belong to this user
// and be writable by nobody else. A socket that a dead server left is
// replaced; one that is served is an error.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, refuse(fmt.Sprintf("cannot listen on %q: the path has more than %d bytes", path, maxPath), "choose a shorter one with --socket")
	}
	dir, err := holdOwn(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close() // and with it the lock: who makes a socket here is alone
	if err := removeDead(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		if l != nil {
			l.Close()
		}
		return nil, fmt.Errorf("cannot listen on %q: %w", path, cause(err))
	}
	return l, nil
}

// holdOwn opens and locks a directory that is ours alone to write to.
func holdOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot use the directory %q for a socket: %w", path, cause(err))
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0) {
		err = fmt.Errorf("it belongs to user %d with mode %#o, and must be yours and writable by nobody else", st.Uid, st.Mode&0o777)
	}
	for err == nil {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
			return f, nil
		}
		if err == unix.EINTR {
			err = nil
		}
	}
	f.Close()
	return nil, fmt.Errorf("cannot use the directory %q for a socket: %w", path, err)
}

// removeDead removes a socket that nobody listens on.
func removeDead(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && st.Mode().Type() != os.ModeSocket {
		err = errors.New("something else has that name")
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %w", path, cause(err))
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return refuse(fmt.Sprintf("cannot listen on %q: a server does already", path), "end it, or choose another path with --socket")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot listen on %q: it cannot be said whether a server does already: %w", path, cause(err))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the socket of a dead server: %w", err)
	}
	return nil
}

func refuse(what, remedy string) error {
	return &plan.Refusal{Problems: []plan.Problem{{What: what, Remedy: remedy}}}
}

// cause leaves out the path and the operation, which the words around it have.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		return sys.Err
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// firstPassed is the first descriptor that a service manager passes.
const firstPassed = 3

// Activated is the socket that a service manager passed to this process (the
// protocol of sd_listen_fds), nil if it passed none. It takes the variables of
// the protocol out of the environment.
func Activated() (*net.UnixListener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if n, err := strconv.Atoi(pid); err != nil || n != os.Getpid() {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n <= 0 {
		return nil, nil
	}
	for fd := firstPassed; fd < firstPassed+n; fd++ {
		unix.CloseOnExec(fd)
	}
	if n != 1 {
		return nil, fmt.Errorf("cannot serve on the sockets that were passed: there are %d; pass one", n)
	}
	f := os.NewFile(firstPassed, "passed socket")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("cannot serve on the socket that was passed: %w", cause(err))
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		return nil, fmt.Errorf("cannot serve on the socket that was passed: it is %s, not a Unix socket", l.Addr().Network())
	}
	u.SetUnlinkOnClose(false) // it is the service manager's
	return u, nil
}

// DefaultSocket is where a server listens whose run-time directory is dir.
func DefaultSocket(dir string) string { return filepath.Join(dir, client.SocketName) }
