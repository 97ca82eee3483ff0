package dirfd

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bothWays runs a test with openat2, and again on a thread where a filter
// answers it with ENOSYS, as an outer sandbox does.
func bothWays(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", func(t *testing.T) {
		if _, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH}); err != nil {
			t.Skipf("openat2 (Linux 5.6) is missing: %v", err)
		}
		test(t)
	})
	for name, errno := range map[string]unix.Errno{"ENOSYS": unix.ENOSYS, "EPERM": unix.EPERM} {
		t.Run("walk after "+name, func(t *testing.T) {
			// The thread is never unlocked: it ends with this goroutine, and
			// the filter with it.
			runtime.LockOSThread()
			hideOpenat2(t, errno)
			test(t)
		})
	}
}

func hideOpenat2(t *testing.T, errno unix.Errno) {
	t.Helper()
	const load, jeq, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the call's number
		{Code: jeq, K: unix.SYS_OPENAT2, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := setFilter(filter); err != nil {
		t.Fatalf("cannot install the test's filter: %v", err)
	}
	if _, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH}); err != errno {
		t.Fatalf("openat2 under the filter: %v, want %v", err, errno)
	}
}

func handle(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, text, path string) {
	t.Helper()
	if err := os.Symlink(text, path); err != nil {
		t.Fatal(err)
	}
}

func TestOpenBeneath(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top+"/outside", "canary")
		put(t, top+"/in/d/f", "text")
		link(t, top+"/outside", top+"/in/abs")
		link(t, "../outside", top+"/in/up")
		link(t, "d/f", top+"/in/good")
		link(t, "d", top+"/in/dirlink")
		link(t, "/proc/self/fd", top+"/in/fds")
		dir := handle(t, top+"/in")

		f, err := OpenBeneath(dir, "d/f", unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if b, err := io.ReadAll(f); string(b) != "text" {
			t.Errorf("read %q, %v", b, err)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the handle is not close-on-exec (%v)", err)
		}

		// No link is followed, not even one that stays inside.
		for _, rel := range []string{"abs", "up", "good", "dirlink", "dirlink/f", "fds/0", "fds"} {
			if f, err := OpenBeneath(dir, rel, unix.O_RDONLY); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("open %q: %v, %v; want ELOOP or ENOTDIR", rel, f, err)
			}
		}
		for _, rel := range []string{"", ".", "..", "../outside", "/etc/passwd", "d/", "d/../../outside", "d//f"} {
			var ne *NameError
			if f, err := OpenBeneath(dir, rel, unix.O_RDONLY); !errors.As(err, &ne) {
				t.Errorf("open %q: %v, %v; want a *NameError", rel, f, err)
			}
		}
		if _, err := OpenBeneath(dir, "absent", unix.O_RDONLY); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("absent: %v", err)
		}
		for _, flags := range []int{unix.O_CREAT, unix.O_TMPFILE | unix.O_WRONLY, unix.O_WRONLY | unix.O_TRUNC} {
			if _, err := OpenBeneath(dir, "d/f", flags); !errors.Is(err, unix.EINVAL) {
				t.Errorf("flags %#x: %v, want EINVAL", flags, err)
			}
		}
	})
}

func TestOpenBeneathStaysOnItsMount(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		root := handle(t, "/")
		for _, rel := range []string{"proc", "proc/self", "proc/self/status", "proc/version"} {
			if f, err := OpenBeneath(root, rel, unix.O_RDONLY); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("open %q: %v, %v; want EXDEV", rel, f, err)
			}
		}
		if _, err := OpenBeneath(root, "proc/version", unix.O_RDONLY); !errors.Is(err, unix.EXDEV) {
			t.Errorf("proc/version: %v, want EXDEV", err)
		}
		proc := handle(t, "/proc")
		if _, err := OpenBeneath(proc, "self/root/etc/passwd", unix.O_RDONLY); err == nil {
			t.Error("a magic link was followed")
		}
	})
}

// With an O_PATH handle the same calls work; only listing needs Reopen.
func TestOPathHandle(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top+"/d/f", "text")
		fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := os.NewFile(uintptr(fd), top)
		defer dir.Close()
		f, err := OpenBeneath(dir, "d/f", unix.O_PATH)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if st, err := Regular(f); err != nil || st.Size != 4 {
			t.Errorf("Regular: %v, %v", st.Size, err)
		}
		if _, _, err := ReadDirNames(dir, 10); !errors.Is(err, unix.EBADF) {
			t.Errorf("listing an O_PATH handle: %v, want EBADF", err)
		}
		again, err := Reopen(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if names, _, err := ReadDirNames(again, 10); err != nil || !slices.Equal(names, []string{"d"}) {
			t.Errorf("names %q, %v", names, err)
		}
		d, err := MkdirBeneath(dir, "d/e", 0o755)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	})
}

func TestSpecialFilesDoNotBlock(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		if err := unix.Mkfifo(top+"/fifo", 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", top+"/sock")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		dir := handle(t, top)
		begin := time.Now()
		if _, err := OpenBeneath(dir, "fifo", unix.O_WRONLY); !errors.Is(err, unix.ENXIO) {
			t.Errorf("FIFO for writing: %v, want ENXIO", err)
		}
		f, err := OpenBeneath(dir, "fifo", unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := Regular(f); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), "FIFO") {
			t.Errorf("FIFO: %v", err)
		}
		if _, err := OpenBeneath(dir, "sock", unix.O_RDONLY); !errors.Is(err, unix.ENXIO) {
			t.Errorf("socket: %v, want ENXIO", err)
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// A program can hold a lease on its own file; an open then waits for it, for
// 45 s by default, unless it does not block.
func TestLeaseDoesNotBlock(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top+"/f", "x")
		f, err := os.Open(top + "/f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Skipf("file leases are missing on this file system: %v", err)
		}
		begin := time.Now()
		if _, err := OpenBeneath(handle(t, top), "f", unix.O_RDONLY); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("open under a lease: %v, want EAGAIN", err)
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestRetry(t *testing.T) {
	count := func(answers ...error) (int, error) {
		n := 0
		_, err := retry(func() (int, error) {
			n++
			return 0, answers[min(n, len(answers))-1]
		})
		return n, err
	}
	if n, err := count(unix.EAGAIN, unix.EINTR, unix.EAGAIN, nil); n != 4 || err != nil {
		t.Errorf("repeated: %d calls, %v", n, err)
	}
	if n, err := count(unix.EAGAIN); n != tries || err != unix.EAGAIN {
		t.Errorf("EAGAIN for ever: %d calls, %v; want %d, EAGAIN", n, err, tries)
	}
	if n, err := count(unix.ELOOP); n != 1 || err != unix.ELOOP {
		t.Errorf("another error: %d calls, %v", n, err)
	}
}

func TestCreateBeneath(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top+"/outside", "canary")
		put(t, top+"/in/taken", "old")
		link(t, "../outside", top+"/in/link")
		link(t, "../new", top+"/in/dangling")
		link(t, "..", top+"/in/dirlink")
		dir := handle(t, top+"/in")

		f, err := CreateBeneath(dir, "fresh", 0o777)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if st, err := Regular(f); err != nil || st.Mode&0o7777 != 0o777 {
			t.Errorf("mode %#o, %v; want 0777 whatever the umask", st.Mode, err)
		}
		for _, rel := range []string{"taken", "link", "dangling", "fresh"} {
			if _, err := CreateBeneath(dir, rel, 0o644); !errors.Is(err, os.ErrExist) {
				t.Errorf("create %q: %v, want EEXIST", rel, err)
			}
		}
		if _, err := CreateBeneath(dir, "dirlink/x", 0o644); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("create through a link: %v", err)
		}
		if _, err := CreateBeneath(dir, "s", 0o4755); !errors.Is(err, unix.EINVAL) {
			t.Errorf("setuid: %v, want EINVAL", err)
		}
		for _, gone := range []string{"new", "x", "in/x", "in/s"} {
			if _, err := os.Lstat(filepath.Join(top, gone)); err == nil {
				t.Errorf("%s was made", gone)
			}
		}
		if b, _ := os.ReadFile(top + "/in/taken"); string(b) != "old" {
			t.Errorf("taken holds %q", b)
		}
	})
}

func TestMkdirBeneath(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		top := t.TempDir()
		if err := os.Mkdir(top+"/in", 0o755); err != nil {
			t.Fatal(err)
		}
		link(t, "..", top+"/in/link")
		link(t, "../new", top+"/in/dangling")
		dir := handle(t, top+"/in")
		for _, rel := range []string{"a", "a/b", "a/b/c"} {
			d, err := MkdirBeneath(dir, rel, 0o777)
			if err != nil {
				t.Fatal(err)
			}
			st, err := Stat(d)
			if err != nil || st.Mode&0o7777 != 0o777 || KindOf(st.Mode) != Directory {
				t.Errorf("%s: mode %#o, %v", rel, st.Mode, err)
			}
			d.Close()
		}
		for rel, want := range map[string]error{"a": unix.EEXIST, "dangling": unix.EEXIST, "link": unix.EEXIST, "no/b": unix.ENOENT} {
			if _, err := MkdirBeneath(dir, rel, 0o755); !errors.Is(err, want) {
				t.Errorf("mkdir %q: %v, want %v", rel, err, want)
			}
		}
		if _, err := MkdirBeneath(dir, "link/x", 0o755); err == nil {
			t.Error("made a directory through a link")
		}
		if names, _ := os.ReadDir(top); len(names) != 1 {
			t.Errorf("%v beside the tree", names)
		}
	})
}

func TestNamedCalls(t *testing.T) {
	top := t.TempDir()
	put(t, top+"/a", "a")
	put(t, top+"/b", "b")
	dir := handle(t, top)
	if err := Symlink(dir, "/etc/passwd", "l"); err != nil {
		t.Fatal(err)
	}
	if text, err := Readlink(dir, "l", 4); text != "/etc" || err != nil {
		t.Errorf("Readlink %q, %v", text, err)
	}
	if st, err := Lstat(dir, "l"); err != nil || KindOf(st.Mode) != Link {
		t.Errorf("Lstat %v, %v", KindOf(st.Mode), err)
	}
	if err := Rename(dir, "a", dir, "b", unix.RENAME_NOREPLACE); !errors.Is(err, os.ErrExist) {
		t.Errorf("rename onto a taken name: %v", err)
	}
	if err := Rename(dir, "a", dir, "l", 0); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(top + "/l"); string(b) != "a" {
		t.Errorf("the link was not replaced: %q", b)
	}
	if err := Remove(dir, "l"); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(top+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir, "d"); err != nil {
		t.Error(err)
	}
	var ne *NameError
	for name, err := range map[string]error{
		"Remove":   Remove(dir, "../x"),
		"Symlink":  Symlink(dir, "x", "a/b"),
		"Rename":   Rename(dir, "b", dir, "..", 0),
		"Rename 2": Rename(dir, "/b", dir, "c", 0),
	} {
		if !errors.As(err, &ne) {
			t.Errorf("%s: %v, want a *NameError", name, err)
		}
	}
	dir.Close()
	if _, err := Lstat(dir, "b"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed handle: %v", err)
	}
	if _, err := OpenBeneath(nil, "b", 0); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("a nil handle: %v", err)
	}
}

func TestRegular(t *testing.T) {
	top := t.TempDir()
	put(t, top+"/f", "x")
	put(t, top+"/h", "x")
	put(t, top+"/gone", "x")
	if err := os.Link(top+"/h", top+"/h2"); err != nil {
		t.Fatal(err)
	}
	dir := handle(t, top)
	for rel, want := range map[string]error{"f": nil, "h": ErrHardLink, "gone": unix.ENOENT} {
		f, err := OpenBeneath(dir, rel, unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if rel == "gone" {
			os.Remove(top + "/gone")
		}
		if _, err := Regular(f); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", rel, err, want)
		}
	}
	if _, err := Regular(dir); !errors.Is(err, ErrNotRegular) {
		t.Errorf("directory: %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := Regular(null); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), "device") {
		t.Errorf("device: %v", err)
	}
}

func TestReadDirNames(t *testing.T) {
	top := t.TempDir()
	const files = 400 // more than one getdents buffer holds
	for i := range files {
		put(t, top+"/"+strings.Repeat("n", 100)+strconv.Itoa(i), "")
	}
	for limit, want := range map[int]int{0: 0, 1: 1, files - 1: files - 1, files: files, files + 1: files} {
		dir := handle(t, top)
		names, more, err := ReadDirNames(dir, limit)
		if err != nil || len(names) != want || more != (limit < files) {
			t.Errorf("limit %d: %d names, more %v, %v", limit, len(names), more, err)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != want {
			t.Errorf("limit %d: names repeat", limit)
		}
	}
	empty := handle(t, t.TempDir())
	if names, more, err := ReadDirNames(empty, 5); len(names) != 0 || more || err != nil {
		t.Errorf("empty: %v %v %v", names, more, err)
	}
}

func TestInside(t *testing.T) {
	top := t.TempDir()
	put(t, top+"/a/b/c/f", "")
	put(t, top+"/a-evil/f", "")
	link(t, top+"/a/b", top+"/door")
	for _, c := range []struct {
		dir, outer string
		want       bool
	}{
		{"a", "a", true}, {"a/b/c", "a", true}, {"door/c", "a", true}, {"a/b", "", true},
		{"a", "a/b", false}, {"a-evil", "a", false}, {"", "a", false},
	} {
		outer, err := Stat(handle(t, filepath.Join(top, c.outer)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Inside(handle(t, filepath.Join(top, c.dir)), outer); got != c.want || err != nil {
			t.Errorf("Inside(%q, %q) = %v, %v; want %v", c.dir, c.outer, got, err, c.want)
		}
	}
}
