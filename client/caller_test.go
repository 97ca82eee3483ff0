package client

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// doorman lets one call in, and does with it what a server may.
func doorman(t *testing.T, do func(*net.UnixConn)) *net.UnixConn {
	t.Helper()
	path := socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		do(c)
	}()
	conn, err := Reach(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); l.Close(); <-done })
	return conn
}

// take reads a whole frame and the descriptors with it.
func take(t *testing.T, c *net.UnixConn) (body string, files int) {
	head, control := make([]byte, DoorHeader), make([]byte, 1024)
	n, nc, _, _, err := c.ReadMsgUnix(head, control)
	if err != nil || n != DoorHeader || string(head[:len(DoorMagic)]) != DoorMagic {
		t.Errorf("%q, %v", head[:n], err)
		return "", 0
	}
	messages, err := syscall.ParseSocketControlMessage(control[:nc])
	if err != nil {
		t.Error(err)
	}
	for _, m := range messages {
		fds, _ := syscall.ParseUnixRights(&m)
		for _, fd := range fds {
			files++
			_ = syscall.Close(fd)
		}
	}
	rest := make([]byte, binary.LittleEndian.Uint32(head[len(DoorMagic):]))
	if _, err := io.ReadFull(c, rest); err != nil {
		t.Error(err)
	}
	return string(rest), files
}

func call() DoorCall {
	return DoorCall{Args: []string{"isolate", "run", ""}, Dir: "/d", Env: []string{"A=b"}, Files: []DoorFile{{"0", 0}, {"1", 1}, {"2", 2}, {DoorTools, 0}}}
}

func TestDoorCall(t *testing.T) {
	conn := doorman(t, func(c *net.UnixConn) {
		body, files := take(t, c)
		if want := "\x03\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00/d\x00isolate\x00run\x00\x00A=b\x000\x001\x002\x00tools\x00"; body != want || files != 4 {
			t.Errorf("%q with %d descriptors", body, files)
		}
		sig := make([]byte, 1)
		if _, err := io.ReadFull(c, sig); err != nil || sig[0] != byte(syscall.SIGHUP) {
			t.Errorf("%v, %v", sig, err)
		}
		_, _ = c.Write([]byte{DoorExit, 42})
	})
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGHUP
	if code, err := call().Do(conn, signals, 3); code != 42 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

// TestDoorCallLong: a command line that is longer than a socket takes at once.
func TestDoorCallLong(t *testing.T) {
	long := call()
	long.Args = append(long.Args, strings.Repeat("x", DoorMax-100))
	conn := doorman(t, func(c *net.UnixConn) {
		if body, _ := take(t, c); !strings.Contains(body, long.Args[3]) {
			t.Errorf("%d bytes came", len(body))
		}
		_, _ = c.Write([]byte{DoorExit, 0})
	})
	if code, err := long.Do(conn, nil, 0); code != 0 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	long.Args = append(long.Args, strings.Repeat("x", 200))
	conn = doorman(t, func(c *net.UnixConn) {
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%d bytes came of a line that is too long", len(b))
		}
	})
	_, err := long.Do(conn, nil, 0)
	conn.Close()
	if !errors.Is(err, ErrCold) {
		t.Error(err)
	}
}

// TestDoorCallEnds: what a server may say instead of an exit code.
func TestDoorCallEnds(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   error
	}{
		"do it yourself": {"c\x00", ErrCold},
		"nothing":        {"", ErrDied},
		"half of it":     {"x", ErrDied},
		"something else": {"?!", ErrDied},
	} {
		conn := doorman(t, func(peer *net.UnixConn) {
			take(t, peer)
			_, _ = io.WriteString(peer, c.answer)
		})
		if code, err := call().Do(conn, nil, 0); !errors.Is(err, c.want) || code != 0 {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
}

// TestDoorCallStuck: a server that does not answer costs so many signals.
func TestDoorCallStuck(t *testing.T) {
	conn := doorman(t, func(c *net.UnixConn) { _, _ = io.Copy(io.Discard, c) })
	signals := make(chan os.Signal, 3)
	for range 3 {
		signals <- syscall.SIGTERM
	}
	code, err := call().Do(conn, signals, 3)
	conn.Close()
	if !errors.Is(err, ErrStuck) || code != 128+15 {
		t.Errorf("%d, %v", code, err)
	}
}

func TestReachNobody(t *testing.T) {
	if _, err := Reach(socket(t)); !errors.Is(err, ErrCold) {
		t.Error(err)
	}
}
