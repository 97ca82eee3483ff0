package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

func TestCopyOut(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/result.csv", "a,b\n1,2\n", 0o644)
	put(t, ws+"/run.sh", "#!/bin/sh\n", 0o777)
	put(t, ws+"/plots/plot.png", "\x89PNG\r\n\x1a\n....", 0o600)
	put(t, ws+"/plots/empty", "", 0o444)
	must(t, os.Mkdir(ws+"/nothing", 0o777))
	m, host := out(t, ws, Limits{})

	var got []string
	for _, e := range m.Files {
		got = append(got, fmt.Sprintf("%s %d %s %s %q", e.Path, e.Size, e.Mode, e.Type, e.Why))
	}
	want := []string{
		`plots/empty 0 0444 text/plain ""`,
		`plots/plot.png 12 0600 image/png ""`,
		`result.csv 8 0644 text/csv ""`,
		`run.sh 10 0755 text/plain ""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q\nwant %q", got, want)
	}
	if m.Dirs != 2 || m.Bytes != 30 || len(m.Skipped) != 0 {
		t.Errorf("%d directories, %d bytes, skipped %v", m.Dirs, m.Bytes, m.Skipped)
	}
	for dir, perm := range map[string]fs.FileMode{"": 0o700, "plots": 0o755, "nothing": 0o755} {
		if info, err := os.Stat(filepath.Join(host, dir)); err != nil || info.Mode().Perm() != perm {
			t.Errorf("%q: %v, %v; want mode %v", dir, info.Mode(), err, perm)
		}
	}
}

// Cases B 77 and A 29-31: nothing but regular files with one name comes out.
func TestCopyOutLeavesOut(t *testing.T) {
	top := tempDir(t)
	ws := top + "/ws"
	put(t, top+"/secret", "canary", 0o644)
	put(t, top+"/ws-evil/f", "canary", 0o644)
	put(t, ws+"/good", "good", 0o644)
	put(t, ws+"/sub/hard", "hard", 0o644)
	must(t, os.Link(ws+"/sub/hard", ws+"/hard2"))
	for name, text := range map[string]string{
		"abs": top + "/secret", "up": "../secret", "twin": "../ws-evil", "inside": "good",
		"dirlink": "sub", "environ": "/proc/self/environ", "fds": "/proc/self/fd", "dangling": "no\x1b[2J" + strings.Repeat("x", 400),
	} {
		must(t, os.Symlink(text, ws+"/"+name))
	}
	must(t, unix.Mkfifo(ws+"/fifo", 0o644))
	l, err := net.Listen("unix", ws+"/socket")
	must(t, err)
	defer l.Close()
	f, err := os.Create(ws + "/sparse")
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	for _, name := range []string{"esc\x1b[31m", "new\nline", "bad\xff", "photo\u202egpj.exe"} {
		put(t, ws+"/"+name, "x", 0o644)
		must(t, os.Mkdir(ws+"/d"+name, 0o755))
	}

	begin := time.Now()
	m, host := out(t, ws, Limits{})
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	if len(m.Files) != 1 || m.Files[0].Path != "good" {
		t.Errorf("files %+v, want only good", m.Files)
	}
	for path, why := range map[string]string{
		"abs": "symbolic link", "up": "symbolic link", "twin": "symbolic link", "inside": "symbolic link",
		"dirlink": "symbolic link", "environ": "symbolic link", "fds": "symbolic link", "dangling": "symbolic link",
		"hard2": "hard link", "sub/hard": "hard link", "fifo": "FIFO", "socket": "socket", "sparse": "larger than 256 MiB",
		`esc\x1b[31m`: "control", `new\nline`: "control", `bad\xff`: "UTF-8", `photo\u202egpj.exe`: "direction",
		`desc\x1b[31m`: "control", `dnew\nline`: "control", `dbad\xff`: "UTF-8", `dphoto\u202egpj.exe`: "direction",
	} {
		skipped(t, m, path, why)
	}
	if len(m.Skipped) != 21 {
		t.Errorf("%d entries skipped, want 21", len(m.Skipped))
	}
	if e, _ := find(m.Skipped, "up"); e.Link != "../secret" {
		t.Errorf("link text %q", e.Link)
	}
	if e, _ := find(m.Skipped, "sparse"); e.Size != 1<<40 {
		t.Errorf("sparse size %d", e.Size)
	}
	noCanary(t, host)
	b, err := json.Marshal(m)
	must(t, err)
	if strings.ContainsAny(string(b), "\x1b\u202e\ufffd") || len(b) > 8000 {
		t.Errorf("the manifest as JSON has %d bytes: %s", len(b), b)
	}
}

func noCanary(t testing.TB, host string) {
	t.Helper()
	must(t, filepath.WalkDir(host, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(text(t, path), "canary") {
			t.Errorf("%q holds bytes from outside the tree", path)
		}
		return err
	}))
}

func TestCopyOutDevice(t *testing.T) {
	testenv.Require(t, testenv.Root)
	ws := tempDir(t)
	if err := unix.Mknod(ws+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("CAP_MKNOD is missing: %v", err)
	}
	m, _ := out(t, ws, Limits{})
	skipped(t, m, "null", "device")
}

func TestCopyOutModes(t *testing.T) {
	ws := tempDir(t)
	for name, mode := range map[string]fs.FileMode{
		"suid": 0o755 | fs.ModeSetuid, "sgid": 0o755 | fs.ModeSetgid, "sticky": 0o644 | fs.ModeSticky, "none": 0,
	} {
		put(t, ws+"/"+name, name, mode)
	}
	put(t, ws+"/locked/in", "", 0o644)
	must(t, os.Chmod(ws+"/locked", 0))
	t.Cleanup(func() { os.Chmod(ws+"/locked", 0o700) })
	m, _ := out(t, ws, Limits{})
	for name, want := range map[string]string{"suid": "0755", "sgid": "0755", "sticky": "0644"} {
		e, _ := find(m.Files, name)
		if e.Mode != want || (name != "sticky") != strings.Contains(e.Why, "setuid or setgid bit removed") {
			t.Errorf("%s: mode %s, why %q", name, e.Mode, e.Why)
		}
	}
	if os.Geteuid() == 0 {
		if e, _ := find(m.Files, "none"); e.Mode != "0400" {
			t.Errorf("a file without a mode was written with %q", e.Mode)
		}
		return
	}
	skipped(t, m, "none", "may not be read")
	skipped(t, m, "locked", "may not be read")
}

// A file under a lease would hold a plain open for 45 s.
func TestCopyOutLease(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/leased", "x", 0o644)
	f, err := os.Open(ws + "/leased")
	must(t, err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("file leases are missing on this file system: %v", err)
	}
	begin := time.Now()
	m, _ := out(t, ws, Limits{})
	skipped(t, m, "leased", "lease")
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestCopyOutLimits(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/a", strings.Repeat("a", 100), 0o644)
	put(t, ws+"/b", strings.Repeat("b", 101), 0o644)
	put(t, ws+"/c", strings.Repeat("c", 50), 0o644)
	put(t, ws+"/d/e/f/deep", "x", 0o644)
	put(t, ws+"/long-name", "x", 0o644)

	m, _ := out(t, ws, Limits{MaxFile: 100, MaxDepth: 2, MaxName: 8})
	skipped(t, m, "b", "larger than 100 bytes")
	skipped(t, m, "d/e/f", "deeper than 2")
	skipped(t, m, "long-name", "longer than 8 bytes")
	if len(m.Files) != 2 || len(m.Skipped) != 3 || m.Dirs != 2 {
		t.Errorf("%+v", m)
	}

	m, _ = out(t, ws, Limits{MaxBytes: 151, MaxFile: 1000})
	skipped(t, m, "b", "the copy would pass 151 bytes")
	if m.Bytes != 151 || len(m.Files) != 3 {
		t.Errorf("%d bytes, files %+v", m.Bytes, m.Files)
	}
	skipped(t, m, "long-name", "the copy would pass 151 bytes")

	m, _ = out(t, ws, Limits{MaxFiles: 4})
	skipped(t, m, "…", "4 entries")
	if n := len(m.Files) + m.Dirs + len(m.Skipped) - 1; n != 4 || len(m.Skipped) > 2 {
		t.Errorf("%d entries were looked at, want 4: %+v", n, m)
	}

	m, _ = out(t, ws, Limits{MaxFiles: 5})
	skipped(t, m, "d/…", "5 entries")
	if len(m.Skipped) != 1 {
		t.Errorf("%+v", m.Skipped)
	}
	if _, err := CopyOut(t.Context(), handle(t, ws), ws+"/o", Limits{MaxDepth: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
}

func TestCopyOutSparse(t *testing.T) {
	ws := tempDir(t)
	f, err := os.Create(ws + "/s")
	must(t, err)
	defer f.Close()
	for _, off := range []int64{0, 5<<20 + 17, 20 << 20} {
		_, err := f.WriteAt([]byte("data"), off)
		must(t, err)
	}
	must(t, f.Truncate(64<<20))
	put(t, ws+"/dense", strings.Repeat("d", 300<<10), 0o644)
	m, host := out(t, ws, Limits{})
	if e, _ := find(m.Files, "s"); e.Size != 64<<20 {
		t.Errorf("%+v", e)
	}
	var st unix.Stat_t
	must(t, unix.Stat(host+"/s", &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the holes were filled: %d bytes allocated", st.Blocks*512)
	}
}

func TestCopyOutHost(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/f", "x", 0o644)
	top := tempDir(t)
	put(t, top+"/full/keep", "keep", 0o644)
	put(t, top+"/file", "keep", 0o644)
	must(t, os.Mkdir(top+"/empty", 0o750))
	must(t, os.Symlink("empty", top+"/link"))
	must(t, os.Symlink("absent", top+"/dangling"))
	must(t, os.Mkdir(top+"/ro", 0o500))
	for host, why := range map[string]string{
		"":                 "empty",
		top + "/full":      "not empty",
		top + "/file":      "regular file",
		top + "/link":      "symbolic link",
		top + "/link/":     "symbolic link",
		top + "/dangling":  "symbolic link",
		top + "/no/parent": "parent",
		top + "/file/x":    "not a directory",
		ws + "/out":        "workspace",
	} {
		checkHost(t, ws, host, why)
	}
	if os.Geteuid() != 0 {
		checkHost(t, ws, top+"/ro", "cannot be written")
		checkHost(t, ws, top+"/ro/new", "cannot be written")
	}
	if text(t, top+"/full/keep") != "keep" || text(t, top+"/file") != "keep" {
		t.Error("a file was changed")
	}

	// An empty directory is used as it is, by any way to write its name.
	t.Chdir(top + "/empty")
	m, err := CopyOut(t.Context(), handle(t, ws), ".", Limits{})
	must(t, err)
	compare(t, top+"/empty", m)
	if info, _ := os.Stat(top + "/empty"); info.Mode().Perm() != 0o750 {
		t.Errorf("its mode became %v", info.Mode())
	}
}

func checkHost(t *testing.T, ws, host, why string) {
	t.Helper()
	_, err := CopyOut(t.Context(), handle(t, ws), host, Limits{})
	var r *Refusal
	if !errors.As(err, &r) || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Rule, why) || r.Problems[0].Remedy == "" {
		t.Errorf("%q: %v, want a refusal with a remedy about %q", host, err, why)
	}
	if why == "workspace" {
		return // not known before there is one
	}
	if p := CheckOutput(host); len(p) != 1 || !strings.Contains(p[0].Rule, why) {
		t.Errorf("CheckOutput(%q) = %v", host, p)
	}
}

// endsAfter is a context that ends after so many looks at it.
type endsAfter struct {
	context.Context
	looks int
}

func (c *endsAfter) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A copy that is cancelled leaves whole files, and lists exactly those.
func TestCopyOutCancelled(t *testing.T) {
	ws := tempDir(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, ws+"/"+name, strings.Repeat(name, 3*bufSize), 0o644)
	}
	seen := map[int]bool{}
	for looks := range 30 {
		host := filepath.Join(tempDir(t), "out")
		m, err := CopyOut(&endsAfter{t.Context(), looks}, handle(t, ws), host, Limits{})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if (err == nil) != (len(m.Files) == 3) {
			t.Errorf("%d files, %v", len(m.Files), err)
		}
		seen[len(m.Files)] = true
		compare(t, host, m)
	}
	if len(seen) != 4 {
		t.Errorf("numbers of files seen: %v, want 0 to 3", seen)
	}
}

// The host's disk is full: an error with a remedy, and no half file.
func TestCopyOutHostFull(t *testing.T) {
	small := sandboxTree(t)
	ws := tempDir(t)
	put(t, ws+"/a", strings.Repeat("a", 600<<10), 0o644)
	put(t, ws+"/b", strings.Repeat("b", 600<<10), 0o644)
	host := small + "/out"
	m, err := CopyOut(t.Context(), handle(t, ws), host, Limits{})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("%v, want ENOSPC with a remedy", err)
	}
	if len(m.Files) != 1 {
		t.Errorf("files %+v", m.Files)
	}
	compare(t, host, m)
}

func TestCopyOutMounts(t *testing.T) {
	ws := sandboxTree(t)
	put(t, ws+"/f", "x", 0o644)
	m, _ := out(t, ws, Limits{})
	if len(m.Files) != 1 || len(m.Skipped) != 1 {
		t.Errorf("files %+v, skipped %+v", m.Files, m.Skipped)
	}
	skipped(t, m, "mounted", "another mount")

	// Without a bridge the name is the program's.
	ws = tempDir(t)
	put(t, ws+"/_rpc/f", "x", 0o644)
	if m, _ := out(t, ws, Limits{}); len(m.Files) != 1 {
		t.Errorf("files %+v", m.Files)
	}

	// With one it is nobody's when the mount has ended with the sandbox; below
	// the top the name is the program's all the same.
	put(t, ws+"/d/_rpc/f", "x", 0o644)
	m, host := out(t, ws, Limits{Bridge: true})
	if len(m.Files) != 1 || m.Files[0].Path != "d/_rpc/f" {
		t.Errorf("files %+v", m.Files)
	}
	if _, err := os.Lstat(host + "/_rpc"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("_rpc was made: %v", err)
	}
}

// Handles may come as O_PATH.
func TestCopyOutOPath(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/f", "x", 0o644)
	fd, err := unix.Open(ws, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	dir := os.NewFile(uintptr(fd), "workspace")
	defer dir.Close()
	host := filepath.Join(tempDir(t), "out")
	m, err := CopyOut(t.Context(), dir, host, Limits{})
	must(t, err)
	compare(t, host, m)
	if len(m.Files) != 1 {
		t.Errorf("%+v", m)
	}
	dir.Close()
	if _, err := CopyOut(t.Context(), dir, host+"2", Limits{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed handle: %v", err)
	}
}

// The example of docs/files.md has the fields and the words of the code.
func TestManifestExample(t *testing.T) {
	doc := text(t, "../docs/files.md")
	_, block, ok := strings.Cut(doc, "```json\n")
	block, _, end := strings.Cut(block, "```")
	if !ok || !end {
		t.Fatal("docs/files.md has no JSON block")
	}
	var want Manifest
	d := json.NewDecoder(strings.NewReader(block))
	d.DisallowUnknownFields()
	must(t, d.Decode(&want))

	ws := tempDir(t)
	put(t, ws+"/.git/hooks/pre-commit", strings.Repeat("x", 29), 0o755)
	put(t, ws+"/plots/plot.png", "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 18203), 0o644)
	must(t, os.Symlink("plots/plot.png", ws+"/latest"))
	got, _ := out(t, ws, Limits{})
	for i := range got.Files {
		got.Files[i].SHA256 = "…"
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("docs/files.md shows %+v\nthe code gives %+v", want, got)
	}
}
