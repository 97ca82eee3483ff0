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
	names, err := List(dir)
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
	if _, err := List(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("listing a directory that is not there gives %v", err)
	}
}
