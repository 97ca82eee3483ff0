package workspace

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMain(m *testing.M) {
	// The runtime keeps descriptors for polling from the first use on.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	if after := descriptors(); after != before {
		fmt.Fprintf(os.Stderr, "%d descriptors before the tests, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func descriptors() int {
	fds, _ := os.ReadDir("/proc/self/fd")
	return len(fds)
}

// tempDir is a directory in memory where there is one: these tests make many
// small files. It is removed at the end.
func tempDir(t testing.TB) string {
	t.Helper()
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(shm, &st) != nil || st.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "isolate-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func handle(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := dirfd.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func put(t testing.TB, path, text string, mode fs.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chmod(path, mode))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// out copies dir out, checks the manifest against what is on the host, and
// returns both.
func out(t testing.TB, dir string, lim Limits) (Manifest, string) {
	t.Helper()
	host := filepath.Join(tempDir(t), "out")
	m, err := CopyOut(t.Context(), handle(t, dir), host, lim)
	must(t, err)
	compare(t, host, m)
	return m, host
}

// compare holds a manifest against a directory: every file that is there is
// listed, with its true size, mode and digest, and nothing else is there.
func compare(t testing.TB, host string, m Manifest) {
	t.Helper()
	listed := map[string]Entry{}
	var bytes int64
	for _, e := range m.Files {
		listed[e.Path] = e
		bytes += e.Size
	}
	if len(listed) != len(m.Files) || bytes != m.Bytes {
		t.Errorf("%d files listed as %d paths, %d bytes as %d", len(m.Files), len(listed), bytes, m.Bytes)
	}
	dirs := -1 // the top is not counted
	err := filepath.WalkDir(host, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(host, path)
		e, ok := listed[rel]
		delete(listed, rel)
		switch {
		case d.IsDir():
			dirs++
		case !ok:
			t.Errorf("%q is there and not listed", rel)
		case e.Link != "":
			if text, _ := os.Readlink(path); text != e.Link {
				t.Errorf("%q links to %q, listed as %q", rel, text, e.Link)
			}
		case !info.Mode().IsRegular():
			t.Errorf("%q is %v", rel, info.Mode())
		default:
			compareFile(t, path, info, e)
		}
		return nil
	})
	must(t, err)
	if dirs != m.Dirs {
		t.Errorf("%d directories, listed as %d", dirs, m.Dirs)
	}
	for rel := range listed {
		t.Errorf("%q is listed and not there", rel)
	}
}

func compareFile(t testing.TB, path string, info fs.FileInfo, e Entry) {
	t.Helper()
	if mode := octal(uint32(info.Sys().(*syscall.Stat_t).Mode & 0o7777)); mode != e.Mode {
		t.Errorf("%q has mode %s, listed as %s", e.Path, mode, e.Mode)
	}
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	must(t, err)
	if got := hex.EncodeToString(sum.Sum(nil)); n != e.Size || got != e.SHA256 {
		t.Errorf("%q holds %d bytes %s, listed as %d %s", e.Path, n, got, e.Size, e.SHA256)
	}
}

func find(entries []Entry, path string) (Entry, bool) {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		return Entry{}, false
	}
	return entries[i], true
}

// skipped checks that path was left out for a reason that holds why.
func skipped(t testing.TB, m Manifest, path, why string) {
	t.Helper()
	e, ok := find(m.Skipped, path)
	if !ok || !strings.Contains(e.Why, why) {
		t.Errorf("%q: skipped %v %q, want a reason with %q", path, ok, e.Why, why)
	}
	if _, ok := find(m.Files, path); ok {
		t.Errorf("%q was copied", path)
	}
}

func text(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// sandboxTree is what the sandbox has: a tmpfs in mount and user namespaces of
// its own, 1 MiB and 64 inodes, with other mounts at _rpc and mounted. The
// path leads there from outside.
func sandboxTree(t testing.TB) string {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	dir := t.TempDir()
	c := exec.Command("sh", "-ec", `
		mount -t tmpfs -o size=1m,nr_inodes=64 tmpfs "$1"
		mkdir "$1/_rpc" "$1/mounted"
		mount -t tmpfs tmpfs "$1/_rpc"; echo request > "$1/_rpc/req_1.json"
		mount -t tmpfs tmpfs "$1/mounted"; echo x > "$1/mounted/file"
		echo ready; exec cat`, "sh", dir)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	stdin, err := c.StdinPipe()
	must(t, err)
	stdout, err := c.StdoutPipe()
	must(t, err)
	c.Stderr = os.Stderr
	must(t, c.Start())
	t.Cleanup(func() {
		stdin.Close()
		c.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the namespace's shell says %q, %v", line, err)
	}
	return fmt.Sprintf("/proc/%d/root%s", c.Process.Pid, dir)
}
