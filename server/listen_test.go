package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "isolate-s-") // t.TempDir is too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestListen(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "a server does already") {
		t.Errorf("a second server: %v", err)
	}
	l.SetUnlinkOnClose(false) // as a server that is killed
	l.Close()
	l, err = Listen(path)
	if err != nil {
		t.Fatalf("after a dead server: %v", err)
	}
	l.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := socketDir(t)
	write := filepath.Join(dir, "file")
	if err := os.WriteFile(write, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		write:                              "something else has that name",
		filepath.Join(open, "s"):           "writable by nobody else",
		filepath.Join(dir, "none", "s"):    "no such file",
		filepath.Join(dir, "link", "s"):    "not a directory",
		"/tmp/" + strings.Repeat("x", 200): "more than 107 bytes",
	} {
		if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
			if l != nil {
				l.Close()
			}
		}
	}
	if text, err := os.ReadFile(write); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestPeer: who is there is said by the kernel, and a process like ourselves
// is not unlike us.
func TestPeer(t *testing.T) {
	l, err := Listen(filepath.Join(socketDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	who, err := peerOf(conn)
	if err != nil || who != (peer{os.Geteuid(), os.Getegid(), os.Getpid()}) {
		t.Errorf("%+v, %v", who, err)
	}
	groups, err := groupsOf(conn)
	if err != nil {
		t.Fatal(err)
	}
	me, err := whoAmI()
	if err != nil {
		t.Fatal(err)
	}
	if why := me.unlike(who, groups); why != "" {
		t.Errorf("we are unlike ourselves: %s", why)
	}
	for _, other := range []peer{{who.uid + 1, who.gid, who.pid}, {who.uid, who.gid + 1, who.pid}, {who.uid, who.gid, 0}, {who.uid, who.gid, 1 << 30}} {
		if me.unlike(other, groups) == "" {
			t.Errorf("%+v is like us", other)
		}
	}
	if me.unlike(who, append(groups, 4242)) == "" {
		t.Error("another group makes no difference")
	}
	if !me.admits(who) || !me.admits(peer{uid: 0}) || me.admits(peer{uid: who.uid + 1}) {
		t.Error("admits")
	}
}
