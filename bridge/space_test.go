package bridge

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// smallTree is a tmpfs in mount and user namespaces of its own, as a sandbox
// has it, with another at ws. The path leads there from outside.
func smallTree(t testing.TB, options, workspace string) string {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	dir := t.TempDir()
	c := exec.Command("sh", "-ec", `
		mount -t tmpfs -o "$2" tmpfs "$1"
		mkdir "$1/ws"
		mount -t tmpfs -o "$3" tmpfs "$1/ws"
		echo ready; exec cat`, "sh", dir, options, workspace)
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

// fill takes the last byte of a file system.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// fillInodes takes the last inode.
func fillInodes(t testing.TB, dir string) (names []string) {
	t.Helper()
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprint("junk", i))
		err := os.WriteFile(name, nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			return names
		}
		must(t, err)
		names = append(names, name)
	}
}

// B 69, C 22, rule 14: the bridge's own file system is full to the last byte.
// Each call still has an answer, which says so, and when there is space again
// all is well.
func TestBridgeFull(t *testing.T) {
	dir := smallTree(t, "size=1m,nr_inodes=200", "size=1m")
	r := newRigIn(t, dir, Options{MaxCalls: NoLimit}, echo)
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Fatalf("%+v", a)
	}
	junk := filepath.Join(r.dir, "req", "junk")
	full := 0
	// Each request that is taken makes room for its own answer. It is chance
	// whether the program is faster.
	for try := 0; try < 10 && full == 0; try++ {
		var waiting []string
		for range reserved + 4 { // written first: later there is no space for them
			id := r.id()
			must(t, os.WriteFile(filepath.Join(r.dir, "req", ".tmp-"+id), []byte(request("echo", "{}")), 0o600))
			waiting = append(waiting, id)
		}
		fill(t, junk)
		for _, id := range waiting {
			must(t, os.Rename(filepath.Join(r.dir, "req", ".tmp-"+id), r.req(id)))
			switch a := r.read(id); {
			case a.Code == CodeNoSpace && a.Class == Limit:
				full++
			case a.Status != "ok": // a request that was removed makes room for one
				t.Errorf("%+v", a)
			}
			// The program takes what the claimed request gave back.
			f, err := os.OpenFile(junk, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			f.Write(make([]byte, 64<<10))
			f.Close()
		}
		must(t, os.Remove(junk))
	}
	if full == 0 {
		t.Error("no call met the full file system")
	}
	for range 3 {
		if a := r.call("echo", `{"a": "`+strings.Repeat("x", 10_000)+`"}`); a.Status != "ok" {
			t.Errorf("with space again: %+v", a)
		}
	}
	r.server.out.mu.Lock()
	defer r.server.out.mu.Unlock()
	if n := len(r.server.out.spares); n != reserved {
		t.Errorf("the reserve holds %d", n)
	}
}

// The same without inodes, and without the reserve: the oldest answers go.
func TestInodesExhausted(t *testing.T) {
	dir := smallTree(t, "size=4m,nr_inodes=100", "size=1m")
	r := newRigIn(t, dir, Options{MaxCalls: NoLimit}, echo)
	var ids []string
	for range 40 {
		id := r.id()
		must(t, os.WriteFile(filepath.Join(r.dir, "req", ".tmp-"+id), []byte(request("echo", "{}")), 0o600))
		ids = append(ids, id)
	}
	names := fillInodes(t, filepath.Join(r.dir, "req"))
	begin := time.Now()
	for _, id := range ids {
		must(t, os.Rename(filepath.Join(r.dir, "req", ".tmp-"+id), r.req(id)))
		if a := r.read(id); a.Status != "ok" && a.Code != CodeNoSpace {
			t.Errorf("%+v", a)
		}
	}
	if d := time.Since(begin); d > 3*patience {
		t.Errorf("took %v", d)
	}
	for _, name := range names {
		must(t, os.Remove(name))
	}
	time.Sleep(evictAge)
	for range 10 {
		if a := r.call("echo", "{}"); a.Status != "ok" {
			t.Errorf("with inodes again: %+v", a)
		}
	}
}

// The workspace is full: a result that would go there is lost, and says so.
func TestWorkspaceFull(t *testing.T) {
	dir := smallTree(t, "size=16m", "size=1m")
	r := newRigIn(t, dir, Options{}, constant("big", `"`+strings.Repeat("x", 5<<20)+`"`), echo)
	r.wrongCall("big", CodeNoSpace)
	left, err := os.ReadDir(r.ws)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the workspace: %v, %v", left, err)
	}
	if a := r.call("echo", "{}"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
}

// A program that never says that it read an answer cannot fill the bridge
// with answers.
func TestAnswersAreEvicted(t *testing.T) {
	dir := smallTree(t, "size=1m,nr_inodes=1000", "size=1m")
	r := newRigIn(t, dir, Options{MaxCalls: NoLimit}, echo)
	for i := range 600 {
		if a := r.call("echo", `{"a": "`+strings.Repeat("x", 3000)+`"}`); a.Status != "ok" && a.Code != CodeNoSpace {
			t.Fatalf("call %d: %+v", i, a)
		}
	}
	time.Sleep(evictAge)
	if a := r.call("echo", `{"a": "`+strings.Repeat("x", 3000)+`"}`); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
}

// What a request holds counts until it is removed, read or not.
func TestLitterIsWeighed(t *testing.T) {
	r := newRig(t, Options{RequestBytes: 100}, echo)
	r.server.w.remove(r.server.watches...) // nobody is told, and nobody tidies up
	const size = 5000
	for id, name := range map[string]string{"file": r.req("file"), "text": r.textName("text")} {
		h := hint{id: id}
		if id == "text" {
			h.place = inText
			must(t, os.Symlink(strings.Repeat(" ", textMax), name))
		} else {
			must(t, os.WriteFile(name, make([]byte, size), 0o600))
		}
		r.server.working.Lock()
		c, unsure := r.server.take(h)
		r.server.working.Unlock()
		if c != nil || unsure {
			t.Fatalf("%s: %+v, %v", id, c, unsure)
		}
	}
	r.server.out.mu.Lock()
	defer r.server.out.mu.Unlock()
	if got := r.server.out.litter.bytes; got != size+textMax {
		t.Errorf("litter of %d bytes, want %d", got, size+textMax)
	}
}
