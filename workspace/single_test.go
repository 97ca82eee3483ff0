package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostileTree is a workspace with everything in it that a program may make.
func hostileTree(t *testing.T) (*os.File, string) {
	t.Helper()
	dir, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o640),
		os.Mkdir(filepath.Join(dir, "sub"), 0o755),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")),
		os.Symlink(outside, filepath.Join(dir, "way")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666),
		os.WriteFile(filepath.Join(dir, "new\nline"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, outside
}

func TestOpenFile(t *testing.T) {
	d, _ := hostileTree(t)
	f, err := OpenFile(d, "file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); string(text) != "content" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{"", ".", "none", "link", "way/secret", "fifo", "sub", "/file", "../x", "sub/../file"} {
		if f, err := OpenFile(d, path); err == nil {
			t.Errorf("%q is opened", path)
			f.Close()
		}
	}
}

func TestPut(t *testing.T) {
	d, outside := hostileTree(t)
	put := func(path, text string) error {
		_, err := Put(context.Background(), d, path, 0o755, strings.NewReader(text), Limits{MaxBytes: 10})
		return err
	}
	for _, path := range []string{"file", "link", "fifo", "a/b/c"} {
		if err := put(path, "new"); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		full := filepath.Join(d.Name(), path)
		st, err := os.Lstat(full)
		if err != nil || st.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
		if text, err := os.ReadFile(full); string(text) != "new" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	for _, path := range []string{"", "way/secret", "way/new", "sub", "../x", "_rpc/x", "_rpc", "file/x"} {
		if err := put(path, "new"); err == nil {
			t.Errorf("%q is written", path)
		}
	}
	if err := put("big", "more than ten"); !errors.Is(err, unix.EFBIG) {
		t.Errorf("too big: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Put(ended, d, "late", 0o644, strings.NewReader("x"), Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "secret")); string(text) != "secret" {
		t.Errorf("outside: %q, %v", text, err)
	}
	entries, err := os.ReadDir(d.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".isolate-") || e.Name() == "big" || e.Name() == "late" {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestList(t *testing.T) {
	d, _ := hostileTree(t)
	list, more, err := List(d, "", 100)
	if err != nil || more {
		t.Fatal(more, err)
	}
	want := []Listed{
		{"fifo", "FIFO", 0, list[0].Mode}, {"file", "regular file", 7, "0640"}, {"link", "symbolic link", 0, list[2].Mode},
		{`"new\nline"`, "", 0, ""}, {"sub", "directory", 0, "0755"}, {"way", "symbolic link", 0, list[5].Mode},
	}
	for i, e := range list {
		if e != want[i] {
			t.Errorf("%+v, want %+v", e, want[i])
		}
	}
	if list, more, err := List(d, "", 2); err != nil || !more || len(list) != 2 {
		t.Errorf("two: %v, %t, %v", list, more, err)
	}
	if list, _, err := List(d, "sub", 2); err != nil || len(list) != 0 {
		t.Errorf("sub: %v, %v", list, err)
	}
	for _, path := range []string{"way", "file", "none", ".."} {
		if _, _, err := List(d, path, 2); err == nil {
			t.Errorf("%s is listed", path)
		}
	}
	if _, _, err := List(d, "none", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
