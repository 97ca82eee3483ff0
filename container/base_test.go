package container

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
)

func TestOwnDirRefusals(t *testing.T) {
	top := t.TempDir()
	open := filepath.Join(top, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link, file} {
		if err := ownDir(dir); err == nil {
			t.Errorf("%s was taken", filepath.Base(dir))
		}
	}
	if err := ownDir(filepath.Join(top, "new")); err != nil {
		t.Error(err)
	}
}

func TestDefaultDir(t *testing.T) {
	if got := DefaultDir("/run/user/1000", 1000); got != "/run/user/1000/isolate" {
		t.Errorf("got %q", got)
	}
	// the standard of XDG_RUNTIME_DIR: what is relative in it counts for nothing
	if got, want := DefaultDir("some", 1000), DefaultDir("", 1000); got != want || !filepath.IsAbs(got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A directory whose lock is free, or that has none, belongs to a dead process;
// one whose lock is held to a living one. While somebody is making a directory,
// one without a lock may be that one (cases.md A 66).
func TestCleanKeepsTheLiving(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"isolate-dead00000000", "isolate-live00000000", "isolate-young0000000", "somebody-elses"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "root1", "s"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"isolate-dead00000000", "isolate-live00000000"} {
		f, err := os.Create(filepath.Join(dir, name, lockName))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if name == "isolate-live00000000" {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func(want map[string]bool) {
		t.Helper()
		for name, w := range want {
			_, err := os.Stat(filepath.Join(dir, name))
			if (err == nil) != w {
				t.Errorf("%s is there: %v, want %v", name, err == nil, w)
			}
		}
	}
	making, err := holdDir(dir, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	clean(dir)
	there(map[string]bool{"isolate-dead00000000": false, "isolate-live00000000": true, "isolate-young0000000": true, "somebody-elses": true})
	making.Close()
	clean(dir)
	there(map[string]bool{"isolate-live00000000": true, "isolate-young0000000": false, "somebody-elses": true})
}

func TestOpenAndClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	b, err := Open(context.Background(), dir, here(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the empty run-time directory is left")
	}
}

// The run-time directory is the same for all processes of a user, whatever the
// umask of the one that makes it.
func TestUmask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	was := unix.Umask(0o777)
	b, err := Open(context.Background(), dir, here(t))
	unix.Umask(was)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, b.dir} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != dirMode() {
			t.Errorf("%s: %v, %v", d, info, err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"sh", "/bin:/usr/bin", []string{"/bin/sh", "/usr/bin/sh"}},
		{"./a", "/bin", []string{"./a"}},
		{"/abs", "/bin", []string{"/abs"}},
		{"x", ":/bin", []string{"./x", "/bin/x"}},
	} {
		got := candidates(c.name, c.path)
		if len(got) != len(c.want) || got[0] != c.want[0] || got[len(got)-1] != c.want[len(c.want)-1] {
			t.Errorf("%q in %q: %v, want %v", c.name, c.path, got, c.want)
		}
	}
}

// here is where the test is in the hierarchies.
func here(t *testing.T) cgroup.Place {
	t.Helper()
	place, err := cgroup.Here()
	if err != nil {
		t.Fatal(err)
	}
	return place
}
