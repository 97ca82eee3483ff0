package kernfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, path := range []string{"/proc/self/cmdline", "/proc/self/limits", "/proc/filesystems"} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestReadMoreThanUsual(t *testing.T) {
	for _, size := range []int{0, usual - 1, usual, usual + 1, 5*usual + 7} {
		path := filepath.Join(t.TempDir(), "file")
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d came: %v", size, len(got), err)
		}
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, "1"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("writing to a file that is not there gives %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, "12345"); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(path); err != nil || string(b) != "12345" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

func TestReadOfWhatIsNoFile(t *testing.T) {
	if b, err := Read(t.TempDir()); err == nil {
		t.Errorf("a directory has %q", b)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Open(path, os.O_RDWR); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opening a file that is not there gives %v", err)
	}
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, want := range []string{"one", "two", "two"} {
		if got, err := f.Read(make([]byte, 4)); err != nil || string(got) != want {
			t.Errorf("the file has %q, %v; want %q", got, err, want)
		}
		if err := f.Write("two"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := f.Read(make([]byte, 3)); err == nil {
		t.Errorf("a file of 3 bytes that may have more is %q", got)
	}
}

func openDir(t *testing.T, path string) Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestDirRead(t *testing.T) {
	at := t.TempDir()
	d := openDir(t, at)
	for _, size := range []int{0, 1, 9, 10, 11, 50} { // less and more than the buffer
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(filepath.Join(at, "file"), want, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, buf := range [][]byte{nil, make([]byte, 10)} {
			if got, err := d.Read("file", buf); err != nil || !bytes.Equal(got, want) {
				t.Errorf("of %d bytes %d came into %d: %v", size, len(got), len(buf), err)
			}
		}
	}
	if _, err := d.Read("none", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a file that is not there gives %v", err)
	}
	if _, err := OpenDir(filepath.Join(at, "file")); err == nil {
		t.Error("a file is opened as a directory")
	}
}

func TestDirLink(t *testing.T) {
	at := t.TempDir()
	d := openDir(t, at)
	for _, size := range []int{1, 127, 128, 200} {
		name, want := strconv.Itoa(size), strings.Repeat("x", size)
		if err := os.Symlink(want, filepath.Join(at, name)); err != nil {
			t.Fatal(err)
		}
		got, err := d.Link(name)
		if size < 128 && (err != nil || got != want) || size >= 128 && err == nil {
			t.Errorf("a link of %d bytes says %q, %v", size, got, err)
		}
	}
	if _, err := d.Link("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a link that is not there gives %v", err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	want := map[string]bool{}
	for i := range 500 { // more than one call lists
		name := strings.Repeat("n", 20) + strconv.Itoa(i)
		want[name] = true
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := openDir(t, dir).List(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !want[name] {
			t.Errorf("%q is listed, perhaps twice", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("%d names are missing", len(want))
	}
	if _, err := openDir(t, dir).List("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("listing a directory that is not there gives %v", err)
	}
}
