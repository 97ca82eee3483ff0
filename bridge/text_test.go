package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (r *rig) textName(id string) string {
	return filepath.Join(r.dir, "req", TextDir, "req_"+id+".json")
}

// ask writes a request as a text.
func (r *rig) ask(id, body string) {
	r.t.Helper()
	must(r.t, os.Symlink(body, r.textName(id)))
}

// hear waits for the answer to a text. It says whether that was one as well.
func (r *rig) hear(id string) (a reply, text bool) {
	r.t.Helper()
	path := filepath.Join(r.dir, "resp", "resp_"+id+".json")
	waitFor(r.t, func() bool { _, err := os.Lstat(path); return err == nil })
	body, err := os.Readlink(path)
	text = err == nil
	if !text {
		raw, err := os.ReadFile(path)
		must(r.t, err)
		body = string(raw)
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.ID != id || strings.Count(body, "\n") != 1 || body[len(body)-1] != '\n' {
		r.t.Fatalf("the answer to %s is %q, %v", id, body, err)
	}
	return a, text
}

func (r *rig) files(dir string) (names []string) {
	r.t.Helper()
	list, err := os.ReadDir(filepath.Join(r.dir, dir))
	must(r.t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A text is answered by a text, a large answer is a file, and neither has a
// mark. What was acknowledged goes.
func TestText(t *testing.T) {
	r := newRig(t, Options{}, echo, constant("large", `"`+strings.Repeat("x", 2*textMax)+`"`))
	body := `{"tool": "echo", "args": {"é": "` + strings.Repeat("y", 1000) + `"}}`
	r.ask("a", body)
	if a, text := r.hear("a"); a.Status != "ok" || !text || len(a.Result) != len(`{"é":""}`)+1000 {
		t.Errorf("%+v; a text: %v", a, text)
	}
	sum := sha256.Sum256([]byte(body))
	if c := r.broker.Summary().Calls[0]; c.RequestDigest != hex.EncodeToString(sum[:]) || c.RequestBytes != int64(len(body)) {
		t.Errorf("recorded as %+v", c)
	}
	r.ask("b", `{"tool": "large", "args": {}}`)
	if a, text := r.hear("b"); a.Status != "ok" || text || len(a.Result) != 2*textMax+2 {
		t.Errorf("%d bytes; a text: %v", len(a.Result), text)
	}
	full := `{"tool": "echo", "args": {"a": "` + strings.Repeat("x", textMax-35) + `"}}`
	r.ask("c", full)
	if a, _ := r.hear("c"); len(full) != textMax || a.Status != "ok" {
		t.Errorf("the longest, %d bytes: %+v", len(full), a)
	}
	r.ask("d", `{"tool": "echo", "args": {}, "ack": ["a", "b", "c"]}`)
	r.hear("d")
	waitFor(t, func() bool { return len(r.files("resp")) == 1 })
	waitFor(t, func() bool {
		for _, name := range r.files("../claim") {
			if name[0] == 'c' || name[0] == 'a' {
				return false
			}
		}
		return true
	})
	// The same id again, and after its answer went.
	r.ask("d", `{"tool": "echo", "args": {"n": 1}}`)
	r.ask("a", `{"tool": "echo", "args": {}}`)
	if a, _ := r.hear("a"); a.Code != CodeDuplicateID {
		t.Errorf("%+v", a)
	}
	if a, _ := r.hear("d"); string(a.Result) != "{}" {
		t.Errorf("a second request took the place of the first answer: %+v", a)
	}
	if s := r.broker.Summary(); s.Ignored != 0 || s.Done != 4 || s.Refused != 2 {
		t.Errorf("%+v", s)
	}
	// What the program put in the answer's place, where it can, is not followed.
	host := canary(t)
	path := filepath.Join(r.dir, "resp", "resp_e.json")
	must(t, os.Symlink(host, path))
	r.ask("e", request("echo", "{}"))
	waitFor(t, func() bool { text, err := os.Readlink(path); return err == nil && text != host })
	if a, text := r.hear("e"); a.Status != "ok" || !text {
		t.Errorf("%+v; a text: %v", a, text)
	}
}

// The text of a link is read, and never where it leads to.
func TestTextIsNotFollowed(t *testing.T) {
	host := canary(t)
	r := newRig(t, Options{MaxCalls: NoLimit, RequestBytes: 100}, echo)
	for id, c := range map[string]struct {
		text string
		code Code
	}{
		"host": {host, CodeBadJSON}, "proc": {"/proc/self/environ", CodeBadJSON}, "up": {"../../../ws", CodeBadJSON},
		"self": {"req_self.json", CodeBadJSON}, "latin": {"{\xe9}", CodeBadJSON}, "large": {strings.Repeat(" ", 101), CodeTooLarge},
	} {
		r.ask(id, c.text)
		if a, _ := r.hear(id); a.Code != c.code || a.Class != catalogue[c.code].class {
			t.Errorf("%s: %+v", id, a)
		}
	}
	// A link has no place where files are asked for.
	must(t, os.Symlink(`{"tool": "echo", "args": {}}`, r.req("file")))
	r.wrong("file", CodeNotRegular)
	// And nothing else is moved or opened where links are.
	kinds := map[string]func(path string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte(request("echo", "{}")), 0o600) },
		"fifo":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"socket":    func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o600, 0) },
	}
	for kind, make := range kinds {
		id := "no-" + kind
		must(t, make(r.textName(id)))
		if a, _ := r.hear(id); a.Code != CodeNotRegular {
			t.Errorf("%s: %+v", kind, a)
		}
		if _, err := os.Lstat(r.textName(id)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", kind, err)
		}
	}
	must(t, os.Symlink("text", filepath.Join(r.dir, "req", TextDir, "junk")))
	waitFor(t, func() bool { return r.broker.Summary().Ignored == 1 })
}

// While the host claims a text, the program swaps it for another, for a file
// and for a directory. What runs is what is recorded, and of the directories
// none stays in Claim for want of its name: that would be a way out.
func TestTextSwapRace(t *testing.T) {
	var bad atomic.Int64
	act := Tool{Name: "act", Run: func(_ context.Context, c Call) (Reply, error) { return Reply{Value: c.Args}, nil }}
	text := func(i int, who string) string {
		return fmt.Sprintf(`{"tool":"act","args":{"n":%d,"who":"%s"}}`, i, who)
	}
	j := checkJournal(func(c Record) error {
		if c.State != Done {
			return nil
		}
		var in struct {
			N   int    `json:"n"`
			Who string `json:"who"`
		}
		sum := [32]byte{}
		if json.Unmarshal(c.Args, &in) == nil {
			sum = sha256.Sum256([]byte(text(in.N, in.Who)))
		}
		if hex.EncodeToString(sum[:]) != c.RequestDigest {
			bad.Add(1)
		}
		return nil
	})
	r := newRig(t, Options{MaxCalls: NoLimit, TotalRequestBytes: 1 << 40, Journal: j}, act)
	dir, err := os.Open(filepath.Join(r.dir, "req", TextDir))
	must(t, err)
	defer dir.Close()
	fd := int(dir.Fd())
	n := rounds(100_000)
	for i := range n {
		name := fmt.Sprintf("req_t%d.json", i)
		switch i % 3 {
		case 0:
			must(t, unix.Symlinkat(text(i, "wicked"), fd, ".other"))
		case 1:
			other, err := unix.Openat(fd, ".other", unix.O_CREAT|unix.O_WRONLY, 0o600)
			must(t, err)
			unix.Close(other)
		default:
			must(t, unix.Mkdirat(fd, ".other", 0o700))
		}
		must(t, unix.Symlinkat(text(i, "benign"), fd, name))
		for range 200 {
			if unix.Renameat2(fd, ".other", fd, name, unix.RENAME_EXCHANGE) != nil {
				break // claimed
			}
		}
		for unix.Unlinkat(fd, ".other", 0) == unix.EISDIR && unix.Unlinkat(fd, ".other", unix.AT_REMOVEDIR) != nil {
			t.Fatal("cannot remove what was swapped")
		}
	}
	waitFor(t, func() bool { s := r.broker.Summary(); return s.Done+s.Refused >= int64(n) })
	s := r.broker.Summary()
	t.Logf("%d rounds: %d done, %d refused", n, s.Done, s.Refused)
	if bad.Load() != 0 || s.Done < int64(n)/10 {
		t.Errorf("%d of %d ran something else than was recorded", bad.Load(), s.Done)
	}
	waitFor(t, func() bool {
		for _, name := range r.files("../claim") {
			if name[0] == 'c' {
				return false
			}
		}
		return true
	})
}

// Without inodes a text is answered all the same, from the reserve at last,
// and the marks of that go with it.
func TestTextFull(t *testing.T) {
	dir := smallTree(t, "size=4m,nr_inodes=100", "size=1m")
	r := newRigIn(t, dir, Options{MaxCalls: NoLimit}, echo)
	var ids []string
	for range 30 {
		id := r.id()
		must(t, os.Symlink(request("echo", "{}"), filepath.Join(r.dir, "req", TextDir, ".tmp-"+id)))
		ids = append(ids, id)
	}
	junk := filepath.Join(r.dir, "req")
	names := fillInodes(t, junk)
	for i, id := range ids {
		must(t, os.Rename(filepath.Join(r.dir, "req", TextDir, ".tmp-"+id), r.textName(id)))
		if a, _ := r.hear(id); a.Status != "ok" && a.Code != CodeNoSpace {
			t.Errorf("%+v", a)
		}
		// The program takes what the claimed request gave back.
		if f, err := os.Create(filepath.Join(junk, fmt.Sprint("more", i))); err == nil {
			f.Close()
			names = append(names, f.Name())
		}
	}
	for _, name := range r.files("resp") {
		if strings.HasSuffix(name, doneSuffix) {
			t.Errorf("a mark that nobody waits for: %s", name)
		}
	}
	for _, name := range names {
		must(t, os.Remove(name))
	}
	time.Sleep(evictAge)
	for range 10 {
		id := r.id()
		r.ask(id, request("echo", "{}"))
		if a, text := r.hear(id); a.Status != "ok" || !text {
			t.Errorf("with inodes again: %+v; a text: %v", a, text)
		}
	}
}

// The program takes away the right to search, and the directory itself.
func TestTextDirGoesAway(t *testing.T) {
	r := newRig(t, Options{}, echo)
	at := filepath.Join(r.dir, "req", TextDir)
	must(t, os.Symlink(request("echo", "{}"), filepath.Join(r.dir, "req", ".tmp-a")))
	must(t, os.Rename(filepath.Join(r.dir, "req", ".tmp-a"), r.textName("a")))
	must(t, os.Chmod(at, 0))
	if a, _ := r.hear("a"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	must(t, os.Remove(at))
	must(t, os.Mkdir(at, 0o700)) // another one is nobody's
	r.ask("b", request("echo", "{}"))
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	if s := r.broker.Summary(); s.Accepted != 2 {
		t.Errorf("%+v", s)
	}
}
