package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/namespaces"
)

// Base is what cells stand on: a directory of this process in the run-time
// directory, and a part of the cgroup hierarchy.
type Base struct {
	dir    string // "<run-time directory>/<id>"
	lock   *os.File
	id     string
	Cgroup *cgroup.Tree
}

// lockName is locked for as long as the process lives; cgroupsName lists the
// cgroup directories that the process made.
const (
	lockName    = "lock"
	cgroupsName = "cgroups"
	idPrefix    = "isolate-"
)

// DefaultDir chooses the run-time directory for a user: isolate in
// XDG_RUNTIME_DIR (a relative path in it counts for nothing, as its standard
// has it), /run/isolate for root, else a directory in /dev/shm or /tmp.
// The last two are open to everybody, so the name may be taken by somebody
// else; then a free name beside it is used. /dev/shm comes first because it is
// in memory: making a cell's directories on a disk took a tenth of a cold start.
func DefaultDir(xdgRuntimeDir string, euid int) string {
	if euid == 0 {
		return "/run/isolate"
	}
	if filepath.IsAbs(xdgRuntimeDir) {
		return filepath.Join(xdgRuntimeDir, "isolate")
	}
	first := "/tmp/isolate-" + strconv.Itoa(euid)
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil && fs.Type == unix.TMPFS_MAGIC && unix.Access("/dev/shm", unix.W_OK|unix.X_OK) == nil {
		first = "/dev/shm/isolate-" + strconv.Itoa(euid)
	}
	for i := range 100 {
		dir := first
		if i > 0 {
			dir += "-" + strconv.Itoa(i)
		}
		var st unix.Stat_t
		err := unix.Lstat(dir, &st)
		if err == unix.ENOENT || err == nil && int(st.Uid) == euid && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o022 == 0 {
			return dir
		}
	}
	return first
}

// Open prepares a base in the run-time directory dir, for a process that is at
// place, and first removes what dead processes left there.
func Open(ctx context.Context, dir string, place cgroup.Place) (*Base, error) {
	var random [6]byte
	_, _ = rand.Read(random[:])
	b := &Base{id: idPrefix + hex.EncodeToString(random[:])}
	b.dir = filepath.Join(dir, b.id)
	var err error
	for range 100 {
		// somebody who closes may take the empty directory away in between
		if err = ownDir(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		clean(dir)
		if b.lock, err = makeLocked(dir, b.dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	// written before the cgroups exist: whoever cleans up after us must know
	// their names, and names that were never made do no harm
	if err := b.noteCgroups(place.Candidates(b.id)); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.Cgroup = place.Open(ctx, b.id, b.hostUID())
	if b.Cgroup.By() == "cgroup2" {
		// a scope's directory was not known before; systemd removes it with us
		if err := b.noteCgroups(append(place.Candidates(b.id), b.Cgroup.Dirs()...)); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// noteCgroups writes down which directories a later process has to remove if
// this one dies, even while it writes.
func (b *Base) noteCgroups(dirs []string) error {
	name := filepath.Join(b.dir, cgroupsName)
	err := os.WriteFile(name+".new", []byte(strings.Join(dirs, "\n")), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("cannot note cgroups: %w", err)
	}
	return nil
}

func (b *Base) hostUID() int { return namespaces.Choose(os.Geteuid(), os.Getegid()).HostUID }

// dirMode lets the id that root's sandboxes run as pass through.
func dirMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// makeDir makes a directory with dirMode, whatever the umask of the caller is: the
// run-time directory outlives this process and would stay closed to later ones.
func makeDir(dir string) error {
	err := os.Mkdir(dir, dirMode())
	if err == nil {
		err = os.Chmod(dir, dirMode())
	}
	return err
}

// ownDir makes dir, or checks that it is a directory of ours that nobody else
// can write to.
func ownDir(dir string) error {
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = makeDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make run-time directory: %w; set XDG_RUNTIME_DIR to a directory of your own", err)
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot use run-time directory %q: %w; it must be a directory, not a link", dir, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot use run-time directory %q: %w", dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("cannot use run-time directory %q: it belongs to user %d with mode %#o; it must be yours and writable by nobody else: set XDG_RUNTIME_DIR to a directory of your own", dir, st.Uid, st.Mode&0o777)
	}
	return nil
}

// makeLocked makes a directory of ours below dir with its lock. Meanwhile dir is
// held, so that whoever cleans up knows a directory without a lock is dead.
func makeLocked(dir, own string) (*os.File, error) {
	making, err := holdDir(dir, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer making.Close()
	if err := makeDir(own); err != nil {
		return nil, fmt.Errorf("cannot make run-time directory: %w", err)
	}
	// it gets its name when it is locked: a lock that others can take is a dead one's
	name := filepath.Join(own, lockName)
	lock, err := lockFile(name + ".new")
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		os.RemoveAll(own)
		return nil, err
	}
	return lock, nil
}

// holdDir locks a directory for as long as the file is open.
func holdDir(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot hold run-time directory: %w", err)
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot hold run-time directory: %w", err)
	}
	return f, nil
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock run-time directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock run-time directory: %w", err)
	}
	return f, nil
}

// clean removes the directories and cgroups of processes that died without
// doing it. Their sandboxes died with them: the keeper ends when its socket
// does.
func clean(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), idPrefix) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(path, lockName)); err != nil {
			removeUnlocked(dir, path)
			continue
		}
		lock, err := lockFile(filepath.Join(path, lockName))
		if err != nil {
			continue // alive
		}
		names, _ := os.ReadFile(filepath.Join(path, cgroupsName))
		// what cannot be removed now stays noted for the next start
		if cgroup.RemoveAll(strings.Fields(string(names)), e.Name()) == nil {
			_ = os.RemoveAll(path)
		}
		lock.Close()
	}
}

// removeUnlocked removes a directory whose process died before it had a lock,
// or when it had none any more. If somebody is making one just now it may be
// this; then the next start sees to it.
func removeUnlocked(dir, path string) {
	alone, err := holdDir(dir, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return
	}
	defer alone.Close()
	if _, err := os.Lstat(filepath.Join(path, lockName)); errors.Is(err, fs.ErrNotExist) {
		_ = os.RemoveAll(path)
	}
}

// Close removes the base. Its cells must be closed.
func (b *Base) Close() error {
	if b.lock == nil {
		return nil
	}
	err := b.Cgroup.Close()
	if err == nil {
		err = os.RemoveAll(b.dir)
	}
	b.lock.Close()
	b.lock = nil
	// the last one out takes the run-time directory along, if it is empty
	_ = unix.Rmdir(filepath.Dir(b.dir))
	return err
}
