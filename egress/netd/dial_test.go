package netd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// A connection has two directions, which end one by one, and deadlines.
func TestDialTCP(t *testing.T) {
	testenv.Require(t, testenv.IPv6Loopback)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.Copy(c, c)
			_, _ = c.Write([]byte("end"))
		}()
		c, err := dialTCP(t.Context(), netip.MustParseAddrPort(l.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.RemoteAddr().String() != l.Addr().String() {
			t.Errorf("got %s, want %s", c.RemoteAddr(), l.Addr())
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		var late net.Error
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("got %v", err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Write([]byte("the ")); err != nil {
			t.Fatal(err)
		}
		if err := c.(stream).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "the end" {
			t.Errorf("got %q, %v", b, err)
		}
	}
}

// Nobody listens; nobody answers in time; nobody waits any more.
func TestDialTCPFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	if _, err := dialTCP(t.Context(), closed); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	full := deafServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := dialTCP(ctx, full); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	if _, err := dialTCP(ctx, full); err == nil || time.Since(began) > 60*time.Second {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
}

// deafServer listens, and its queue is full: the kernel drops what comes.
func deafServer(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(own.(*unix.SockaddrInet4).Port))
	first, err := net.Dial("tcp", at.String()) // a queue of none holds one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	return at
}
