package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childTimeout bounds a child of a child, which ends with its parent anyhow; it
// is below the usual bound of that one, so that the parent can still answer.
const childTimeout = 10 * time.Second

// spots are directories over which a tmpfs can be mounted, in a mount
// namespace that ends with the child. One of them exists everywhere.
var spots = []string{"/tmp", "/var/tmp", "/mnt", "/run", "/"}

// cell tries, as root of new namespaces, what building a cell needs.
func (t *tally) cell(Ask) {
	spot := t.mountTmpfs()
	has := []string{"mount.tmpfs"}
	t.try("proc.mount", has,
		act("make a directory for proc", func() error { return os.Mkdir(spot+"/proc", 0o555) }),
		act("mount proc in a new pid namespace", func() error { return mountProc(spot+"/proc", "") }),
		act("find this process to be number 1 in it", func() error { return selfIs(spot+"/proc", 1) }))
	t.try("proc.subset", has,
		act("make a directory for proc", func() error { return os.Mkdir(spot+"/subset", 0o555) }),
		act("mount proc with subset=pid", func() error { return mountProc(spot+"/subset", "subset=pid") }),
		act("find /proc/sys hidden in it", func() error { return absent(spot + "/subset/sys") }))
	t.mountBind(spot)
	t.try("net.loopback", nil,
		act("set the loopback interface up", loopbackUp),
		act("connect to a listener of our own on 127.0.0.1", loopbackTalk))
	t.try("inotify.watch", has, inotifySteps(spot)...)
	t.nested(spot)
	t.try("mount.pivot", has, pivotSteps(spot)...) // last: it takes /proc away
}

// sandbox tries what a sandbox inside a cell needs, as root of namespaces
// nested in those of the cell.
func (t *tally) sandbox(Ask) {
	spot := t.mountTmpfs()
	t.try("proc.mount", []string{"mount.tmpfs"},
		act("make a directory for proc", func() error { return os.Mkdir(spot+"/proc", 0o555) }),
		act("mount proc in a nested pid namespace", func() error { return mountProc(spot+"/proc", "") }))
	t.try("userns.close", []string{"proc.mount"},
		act("set user.max_user_namespaces to 0 inside", func() error {
			return os.WriteFile(spot+"/proc/sys/user/max_user_namespaces", []byte("0"), 0)
		}),
		act("be refused another user namespace", func() error {
			err := tryNamespaces(context.Background(), childTimeout, selfFile, Ask{}, unix.CLONE_NEWUSER)
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return notSo(err)
		}))
}

// nested starts the sandbox stage inside this one.
func (t *tally) nested(spot string) {
	f := Finding{Probe: "userns.nested", Step: "make the namespaces of a sandbox inside those of a cell"}
	if g, _ := t.answer.find("proc.mount"); g.Step == "" || g.Errno != 0 {
		t.skip("proc.mount", append(sandboxProbes, f.Probe)...)
		return
	}
	// The maps of the inner namespace are written through this one's proc.
	err := unix.Mount(spot+"/proc", "/proc", "", unix.MS_BIND, "")
	var ans Answer
	if err == nil {
		inner := Ask{UID: 0, GID: 0}
		ans, err = runChild(context.Background(), childTimeout, selfFile, stageSandbox, inner, cellNamespaces)
	}
	if err != nil {
		f.Errno, f.Detail = errnoOf(err), err.Error()
		t.add(f)
		t.skip("userns.nested", sandboxProbes...)
		return
	}
	for _, p := range []string{"mount.tmpfs", "proc.mount"} {
		if g, _ := ans.find(p); f.Errno == 0 && g.Errno != 0 {
			f.Step, f.Errno = g.Step+" inside a cell", g.Errno
		}
	}
	t.add(f)
	for _, p := range sandboxProbes {
		if g, ok := ans.find(p); ok {
			t.add(g)
		}
	}
}

// mountTmpfs mounts the file system the other probes work in. Nothing of it is
// seen outside this mount namespace.
func (t *tally) mountTmpfs() (spot string) {
	t.try("mount.tmpfs", nil,
		act("make the mount tree private", func() error {
			return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}),
		act("mount a tmpfs of 1 MiB and 64 inodes", func() (err error) {
			for _, s := range spots {
				if _, serr := os.Stat(s); serr != nil {
					continue
				}
				spot = s
				err = unix.Mount("tmpfs", s, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=64,mode=0755")
				if err == nil {
					return nil
				}
			}
			return err
		}),
		act("be stopped at its size", func() error { return fullAt(spot + "/full") }))
	return spot
}

// fullAt asks for 2 MiB and passes if they are refused.
func fullAt(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, 2<<20)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return notSo(err)
}

func mountProc(at, options string) error {
	return unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
}

// selfIs passes if the proc at dir calls this process by that number.
func selfIs(dir string, pid int) error {
	s, err := os.Readlink(dir + "/self")
	if err == nil && s != strconv.Itoa(pid) {
		err = unix.ESRCH
	}
	return err
}

func absent(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return unix.EEXIST
	}
	return nil
}

// mountBind shows /usr of the host read-only, as the host view does.
func (t *tally) mountBind(spot string) {
	at := spot + "/bind"
	t.try("mount.bind", []string{"mount.tmpfs"},
		act("make a directory for a bind mount", func() error { return os.Mkdir(at, 0o755) }),
		act("bind /usr", func() error { return unix.Mount("/usr", at, "", unix.MS_BIND|unix.MS_REC, "") }),
		act("make the bind mount read-only", func() error {
			var st unix.Statfs_t
			if err := unix.Statfs(at, &st); err != nil {
				return err
			}
			// Flags of the host's mount are locked and must be given again;
			// statfs names them by the same numbers except for relatime.
			keep := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
			return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
		}),
		act("be refused a new file in it", func() error {
			err := os.WriteFile(at+"/.isolate-host-probe", nil, 0o600)
			if errors.Is(err, unix.EROFS) {
				return nil
			}
			return notSo(err)
		}))
}

// loopbackUp sets lo up in this network namespace.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// loopbackTalk connects to itself over the loopback interface.
func loopbackTalk() error {
	open := func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }
	l, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(l)
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(l, 1); err != nil {
		return err
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	c, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(c)
	return unix.Connect(c, at)
}

// inotifySteps watch a directory through its descriptor, as the bridge does.
func inotifySteps(spot string) []step {
	dir := filepath.Join(spot, "watched")
	in, held := -1, -1
	return []step{
		act("make an inotify instance", func() (err error) {
			in, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
			return err
		}),
		act("open a directory to watch", func() (err error) {
			if err = os.Mkdir(dir, 0o755); err == nil {
				held, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			}
			return err
		}),
		act("watch a directory through its descriptor", func() error {
			_, err := unix.InotifyAddWatch(in, fmt.Sprintf("/proc/self/fd/%d", held), unix.IN_MOVED_TO|unix.IN_CREATE)
			return err
		}),
		act("be told of a new file", func() error {
			if err := os.WriteFile(dir+"/new", nil, 0o600); err != nil {
				return err
			}
			var event [unix.SizeofInotifyEvent + unix.NAME_MAX + 1]byte
			n, err := unix.Read(in, event[:])
			if err != nil {
				return err
			}
			if n < unix.SizeofInotifyEvent || (*unix.InotifyEvent)(unsafe.Pointer(&event)).Mask&unix.IN_CREATE == 0 {
				return unix.EBADMSG
			}
			return nil
		}),
	}
}

// pivotSteps change the root of this mount namespace and leave the old one.
func pivotSteps(spot string) []step {
	at := spot + "/root"
	return []step{
		act("make a directory for a new root", func() error { return os.Mkdir(at, 0o755) }),
		act("mount a new root", func() error {
			return unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0755")
		}),
		act("enter the new root", func() error { return os.Chdir(at) }),
		act("pivot_root to it", func() error { return unix.PivotRoot(".", ".") }),
		act("leave the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }),
		act("find nothing of the host in it", func() error { return absent("/usr") }),
	}
}
