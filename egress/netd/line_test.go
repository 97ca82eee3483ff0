package netd

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

func linePair(t *testing.T) (s *line, other int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	return &line{fd: pair[0]}, pair[1]
}

// What the supervisor says is read, before there is a loop and when it watches,
// however little the loop has to do; then the end is.
func TestLineIsHeard(t *testing.T) {
	s, other := linePair(t)
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	for i, text := range []string{"before", "first", "second"} {
		if i == 1 {
			if err := l.start(nil); err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if err := s.attend(l); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = unix.Write(other, []byte(text)) }()
		if n, err := s.Read(b); err != nil || string(b[:n]) != text {
			t.Errorf("got %q, %v, want %q", b[:n], err, text)
		}
	}
	if err := unix.Shutdown(other, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(b); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// A supervisor that is slow to read gets everything in the end; one that is gone
// is an error.
func TestLineIsFull(t *testing.T) {
	s, other := linePair(t)
	const much = 4 << 20 // more than a socket holds
	got := make(chan int)
	go func() {
		b, total := make([]byte, 64<<10), 0
		for total < much {
			n, err := unix.Read(other, b)
			if err != nil || n == 0 {
				break
			}
			total += n
		}
		got <- total
	}()
	if n, err := s.Write(make([]byte, much)); n != much || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n := <-got; n != much {
		t.Errorf("%d bytes arrived", n)
	}
	if err := unix.Shutdown(other, unix.SHUT_RD); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("x")); err != unix.EPIPE {
		t.Errorf("got %v", err)
	}
}
