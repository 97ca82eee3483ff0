package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (r *rig) wrong(id string, code Code) {
	r.t.Helper()
	a, err := r.await(id, patience)
	if err != nil || a.Status != "error" || a.Code != code || a.Class != catalogue[code].class || a.Error == "" {
		r.t.Errorf("%s: %+v, %v; want %s", id, a, err, code)
	}
}

// canary is a host file that nothing may read or change.
func canary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(path, []byte(request("echo", `{"secret": 1}`)), 0o600))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, old, old))
	t.Cleanup(func() {
		info, err := os.Stat(path)
		must(t, err)
		st := info.Sys().(*syscall.Stat_t)
		if !info.ModTime().Equal(old.Truncate(1)) || st.Atim.Sec != old.Unix() || st.Nlink != 1 {
			t.Errorf("the host's file was touched: %+v", st)
		}
	})
	return path
}

// B 51 to 53, C 17: what is no plain file is refused soon, unread and
// unopened, and removed.
func TestNotRegular(t *testing.T) {
	host := canary(t)
	r := newRig(t, Options{MaxCalls: NoLimit}, echo)
	other := filepath.Join(r.ws, "file")
	must(t, os.WriteFile(other, []byte(request("echo", "{}")), 0o600))
	kinds := map[string]func(path string) error{
		"link":      func(p string) error { return os.Symlink(host, p) },
		"proclink":  func(p string) error { return os.Symlink("/proc/self/environ", p) },
		"dangling":  func(p string) error { return os.Symlink("nowhere", p) },
		"loop":      func(p string) error { return os.Symlink(filepath.Base(p), p) },
		"fifo":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"full-dir": func(p string) error {
			must(t, os.MkdirAll(p+".tmp/d", 0o700))
			return os.Rename(p+".tmp", p)
		},
		"socket": func(p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"hardlink": func(p string) error {
			must(t, os.Link(other, p+".tmp"))
			return os.Rename(p+".tmp", p)
		},
		"unreadable": func(p string) error {
			must(t, os.WriteFile(p+".tmp", []byte("{}"), 0))
			return os.Rename(p+".tmp", p)
		},
	}
	if os.Geteuid() == 0 {
		delete(kinds, "unreadable") // root reads it
		kinds["device"] = func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }
	}
	begin := time.Now()
	for kind, make := range kinds {
		must(t, make(r.req(kind)))
		r.wrong(kind, CodeNotRegular)
		if _, err := os.Lstat(r.req(kind)); kind != "full-dir" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", kind, err)
		}
	}
	if d := time.Since(begin); d > patience {
		t.Errorf("refusing took %v", d)
	}
	r.server.missed() // the directory that stays is not refused again
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	if s := r.broker.Summary(); s.Refused != int64(len(kinds)) || s.Done != 1 {
		t.Errorf("%+v", s)
	}
}

// A file with one name that never had another is as good as any, even if no
// event says that it was written.
func TestLinkedTempFile(t *testing.T) {
	r := newRig(t, Options{}, echo)
	fd, err := unix.Open(filepath.Join(r.dir, "req"), unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	if err != nil {
		t.Skipf("O_TMPFILE is missing on this file system: %v", err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(request("echo", "{}")))
	must(t, err)
	must(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, r.req("a"), unix.AT_SYMLINK_FOLLOW))
	if a := r.read("a"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
}

// B 57: each size has its answer, and memory stays as it is.
func TestSizes(t *testing.T) {
	const limit = 4096
	r := newRig(t, Options{MaxCalls: NoLimit, RequestBytes: limit}, echo)
	pad := func(n int) string {
		head, tail := `{"tool": "echo", "args": {"a": "`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for id, c := range map[string]struct {
		body string
		code Code
	}{
		"empty": {"", CodeBadJSON}, "one": {"{", CodeBadJSON},
		"less": {pad(limit - 1), ""}, "full": {pad(limit), ""}, "more": {pad(limit + 1), CodeTooLarge},
	} {
		r.write(id, c.body)
		if c.code != "" {
			r.wrong(id, c.code)
		} else if a := r.read(id); a.Status != "ok" {
			t.Errorf("%s: %+v", id, a)
		}
	}
	temp := r.req("sparse") + ".tmp"
	must(t, os.WriteFile(temp, nil, 0o600))
	must(t, os.Truncate(temp, 10<<30))
	must(t, os.Rename(temp, r.req("sparse")))
	r.wrong("sparse", CodeTooLarge)
}

// B 57, 58: a file that grows, shrinks or changes behind its reader is served
// as it was read or refused; nothing hangs and nothing crashes.
func TestChanging(t *testing.T) {
	r := newRig(t, Options{MaxCalls: NoLimit, RequestBytes: 64 << 10, TotalRequestBytes: 1 << 40}, echo)
	body := request("echo", `{"a": "`+strings.Repeat("x", 30<<10)+`"}`)
	rounds := 300
	for i := range rounds {
		id := fmt.Sprint("g", i)
		f, err := os.Create(r.req(id) + ".tmp")
		must(t, err)
		_, err = f.WriteString(body)
		must(t, err)
		must(t, os.Rename(f.Name(), r.req(id)))
		for j := range 50 {
			if i%2 == 0 {
				f.Truncate(int64(j))
				f.WriteAt([]byte(body), 0)
			} else {
				f.Write([]byte(" "))
			}
		}
		f.Close()
		a := r.read(id)
		if a.Status != "ok" && a.Code != CodeChanging && a.Code != CodeBadJSON {
			t.Fatalf("%+v", a)
		}
	}
	if s := r.broker.Summary(); s.Accepted != int64(rounds) || s.Done+s.Refused != int64(rounds) {
		t.Errorf("%+v", s)
	}
}

// A writer that holds a lease on its file cannot hold up the host.
func TestLease(t *testing.T) {
	r := newRig(t, Options{}, echo)
	f, err := os.Create(r.req("a") + ".tmp")
	must(t, err)
	defer f.Close()
	f.WriteString(request("echo", "{}"))
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("file leases are missing on this file system: %v", err)
	}
	must(t, os.Rename(f.Name(), r.req("a")))
	r.wrong("a", CodeChanging)
}

// B 56: other names are ignored and counted, and no file is made for them.
func TestIgnoredNames(t *testing.T) {
	r := newRig(t, Options{}, echo)
	n := int64(0)
	for _, name := range badNames {
		path := filepath.Join(r.dir, "req", name)
		if strings.ContainsAny(name, "/\x00") || name == "" || len(name) > 255 {
			continue
		}
		must(t, os.WriteFile(path, []byte(request("echo", "{}")), 0o600))
		if !passing(name) {
			n++
		}
	}
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	if s := r.broker.Summary(); s.Ignored != n || s.Accepted != 1 {
		t.Errorf("%d were ignored, want %d; %+v", s.Ignored, n, s)
	}
	got, err := os.ReadDir(filepath.Join(r.dir, "resp"))
	must(t, err)
	if len(got) != 2 {
		t.Errorf("answers: %v", got)
	}
	r.server.missed()
	r.call("echo", "{}")
	if s := r.broker.Summary(); s.Ignored != n || s.Done != 2 {
		t.Errorf("%d are ignored after a scan, want %d; %+v", s.Ignored, n, s)
	}
}

// C 23: an id serves once. Its answer is not touched by a second request.
func TestReplay(t *testing.T) {
	r := newRig(t, Options{}, echo)
	r.write("a", request("echo", `{"n":1}`))
	if a := r.read("a"); string(a.Result) != `{"n":1}` {
		t.Errorf("%+v", a)
	}
	r.write("a", request("echo", `{"n":2}`))
	r.write("A", request("echo", `{"n":3}`)) // another id
	if a := r.read("A"); string(a.Result) != `{"n":3}` {
		t.Errorf("%+v", a)
	}
	for end := time.Now().Add(patience); r.broker.Summary().Accepted < 3 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if a := r.read("a"); string(a.Result) != `{"n":1}` {
		t.Errorf("the answer became %+v", a)
	}
	// Once the answer is gone, the replay is told so.
	r.write("b", `{"tool": "echo", "args": {}, "ack": ["a"]}`)
	r.read("b")
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(filepath.Join(r.dir, "resp", "resp_a.json")); err != nil {
			break
		}
	}
	r.write("a", request("echo", `{"n":4}`))
	r.wrong("a", CodeDuplicateID)
	if s := r.broker.Summary(); s.Done != 3 || s.Refused != 2 {
		t.Errorf("%+v", s)
	}
}

// B 61, C 18: names that the program made first, where it can, are replaced
// and not followed; only the call in whose way a directory stands is lost.
func TestTakenNames(t *testing.T) {
	host := canary(t)
	r := newRig(t, Options{}, echo)
	resp := func(name string) string { return filepath.Join(r.dir, "resp", name) }
	must(t, os.Symlink(host, resp("resp_a.json")))
	must(t, os.Symlink(host, resp("resp_b.json")))
	must(t, unix.Mkfifo(resp("resp_c.json"), 0o600))
	must(t, os.MkdirAll(resp("resp_d.json/x"), 0o700))
	must(t, os.Symlink(host, resp("resp_e.done")))
	for _, id := range []string{"a", "b", "c", "e"} {
		r.write(id, request("echo", "{}"))
		os.Lstat(resp("resp_" + id + ".done"))
		waitFor(t, func() bool {
			info, err := os.Lstat(resp("resp_" + id + ".json"))
			return err == nil && info.Mode().IsRegular()
		})
		if a := r.read(id); a.Status != "ok" {
			t.Errorf("%+v", a)
		}
	}
	waitFor(t, func() bool {
		info, err := os.Lstat(resp("resp_e.done"))
		return err == nil && info.Mode().IsRegular()
	})
	r.write("d", request("echo", "{}"))
	waitFor(t, func() bool { return r.broker.Summary().Done == 5 })
	if _, err := r.await("d", 50*time.Millisecond); !errors.Is(err, errNoAnswer) {
		t.Errorf("answered into a directory: %v", err)
	}
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
}

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happens")
		}
	}
}

// C 19: the program removes, renames, hides and replaces the directories. The
// host stays with its handles and ends cleanly.
func TestDirectoriesGoAway(t *testing.T) {
	for name, do := range map[string]func(r *rig) error{
		"removed": func(r *rig) error { return os.RemoveAll(r.dir + "/req") },
		"renamed": func(r *rig) error { return os.Rename(r.dir+"/req", r.dir+"/other") },
		"swapped for a link": func(r *rig) error {
			must(r.t, os.Rename(r.dir+"/req", r.dir+"/other"))
			must(r.t, os.WriteFile(r.ws+"/req_x.json", []byte(request("echo", "{}")), 0o600))
			return os.Symlink(r.ws, r.dir+"/req")
		},
		"all renamed": func(r *rig) error { return os.Rename(r.dir, r.dir+"2") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, echo)
			r.call("echo", "{}")
			must(t, do(r))
			r.server.missed()
			time.Sleep(20 * time.Millisecond)
			if s := r.broker.Summary(); s.Accepted != 1 {
				t.Errorf("%+v", s)
			}
			must(t, r.server.Close())
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		r := newRig(t, Options{}, echo)
		for _, mode := range []os.FileMode{0, 0o200, 0o100, 0o300} {
			temp := filepath.Join(r.dir, "req", ".tmp")
			must(t, os.WriteFile(temp, []byte(request("echo", "{}")), 0o600))
			id := r.id()
			must(t, os.Rename(temp, r.req(id)))
			must(t, os.Chmod(r.dir+"/req", mode))
			if a := r.read(id); a.Status != "ok" {
				t.Errorf("mode %v: %+v", mode, a)
			}
			must(t, os.Chmod(r.dir+"/req", 0o700))
		}
	})
}

// Requests directly in Dir are served, and their answers are there as well.
func TestFlat(t *testing.T) {
	host := canary(t)
	r := newRig(t, Options{}, echo)
	flat := func(name string) string { return filepath.Join(r.dir, name) }
	must(t, os.Symlink(host, flat("resp_a.done")))
	must(t, os.WriteFile(flat("req_a.json.tmp"), []byte(request("echo", `{"n":1}`)), 0o600))
	must(t, os.Rename(flat("req_a.json.tmp"), flat("req_a.json")))
	waitFor(t, func() bool {
		info, err := os.Lstat(flat("resp_a.done"))
		return err == nil && info.Mode().IsRegular()
	})
	raw, err := os.ReadFile(flat("resp_a.json"))
	var a reply
	if err != nil || json.Unmarshal(raw, &a) != nil || string(a.Result) != `{"n":1}` {
		t.Errorf("%s, %v", raw, err)
	}
	r.read("a")
	r.write("b", `{"tool": "echo", "args": {}, "ack": ["a"]}`)
	waitFor(t, func() bool { _, err := os.Lstat(flat("resp_a.json")); return err != nil })
	if s := r.broker.Summary(); s.Ignored != 0 {
		t.Errorf("%+v", s)
	}
}

// Written in place, without a rename: the end of writing announces it.
func TestWrittenInPlace(t *testing.T) {
	r := newRig(t, Options{}, echo)
	f, err := os.Create(r.req("a"))
	must(t, err)
	f.WriteString(`{"tool": "echo",`)
	time.Sleep(5 * time.Millisecond)
	f.WriteString(`"args": {}}`)
	must(t, f.Close())
	if a := r.read("a"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	// One that is never finished is refused, not waited for.
	f, err = os.Create(r.req("b"))
	must(t, err)
	defer f.Close()
	f.WriteString(`{"tool": "echo",`)
	r.wrong("b", CodeBadJSON)
}

// A bridge that waits costs nothing. One of a few seconds is enough: what the
// tests before left behind wakes the process up, too.
func TestIdle(t *testing.T) {
	r := newRig(t, Options{}, echo)
	r.call("echo", "{}")
	time.Sleep(2 * again)
	waits := func() int64 {
		var u unix.Rusage
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return u.Nvcsw
	}
	var seen []int64
	for range 5 {
		before := waits()
		time.Sleep(time.Second)
		n := waits() - before
		if n <= 20 {
			return
		}
		seen = append(seen, n)
	}
	t.Errorf("waits in each second of doing nothing: %d", seen)
}

// Rule 22: nothing is held once the server is closed.
func TestCloseReleases(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(fds)
	}
	w, err := NewWatcher()
	must(t, err)
	defer w.Close()
	b := NewBroker(nil, Options{})
	defer b.Close()
	before := count()
	for range 10 {
		h := layout(t, tempDir(t))
		s, err := ServeFiles(w, h, b)
		must(t, err)
		must(t, s.Close())
		must(t, s.Close())
		h.Workspace.Close()
	}
	if after := count(); after > before || len(w.watch) != 0 { // those of tests before may go meanwhile
		t.Errorf("%d descriptors, %d before; %d watches", after, before, len(w.watch))
	}
	if _, err := ServeFiles(w, Handles{}, b); err == nil {
		t.Error("serves without handles")
	}
}
