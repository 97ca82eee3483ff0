package server

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is two ends, the second of which another process would hold.
type pair struct {
	name   string
	reader func(t *testing.T) (theirs, writes *os.File)
	writer func(t *testing.T) (theirs, reads *os.File)
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
}

func socketPair(t *testing.T) (a, b *os.File) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(p[0]), "a"), os.NewFile(uintptr(p[1]), "b")
}

func backwards(f func(*testing.T) (*os.File, *os.File)) func(*testing.T) (*os.File, *os.File) {
	return func(t *testing.T) (*os.File, *os.File) { a, b := f(t); return b, a }
}

var pairs = []pair{
	{name: "pipe", reader: pipe, writer: backwards(pipe)},
	{name: "socket", reader: socketPair, writer: socketPair},
}

func nonblocking(t *testing.T, f *os.File) bool {
	t.Helper()
	flags := 0
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return flags&unix.O_NONBLOCK != 0
}

// TestStdioCopies: everything passes, and the shared flags stay.
func TestStdioCopies(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			out, reads := p.writer(t)
			s := newStdio(out)
			go func() {
				if _, err := s.Write(data); err != nil {
					t.Error(err)
				}
				if nonblocking(t, out) {
					t.Error("the descriptor of the other process does not block any more")
				}
				s.Close()
			}()
			got, err := io.ReadAll(reads)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("written: %d bytes arrive, %v", len(got), err)
			}
			in, writes := p.reader(t)
			r := newStdio(in)
			defer r.Close()
			go func() {
				if _, err := writes.Write(data); err != nil {
					t.Error(err)
				}
				writes.Close()
			}()
			got, err = io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("read: %d bytes arrive, %v", len(got), err)
			}
			if nonblocking(t, in) {
				t.Error("the descriptor of the other process does not block any more")
			}
		})
	}
}

// TestStdioLetsGo: who waits for a stream that nobody serves is woken by
// Close, and takes nothing that comes later.
func TestStdioLetsGo(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			in, writes := p.reader(t)
			keep, err := unix.Dup(int(in.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			left := os.NewFile(uintptr(keep), "left")
			defer left.Close()
			reading, out := newStdio(in), newStdio(func() *os.File { w, _ := p.writer(t); return w }())
			over := make(chan error, 2)
			go func() { _, err := reading.Read(make([]byte, 100)); over <- err }()
			go func() { _, err := out.Write(make([]byte, 8<<20)); over <- err }()
			time.Sleep(50 * time.Millisecond)
			reading.Close()
			out.Close()
			for range 2 {
				select {
				case err := <-over:
					if !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.EPIPE) {
						t.Error(err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("it waits still")
				}
			}
			if _, err := writes.WriteString("later"); err != nil {
				t.Fatal(err)
			}
			writes.Close()
			if got, err := io.ReadAll(left); string(got) != "later" {
				t.Errorf("the other process reads %q, %v", got, err)
			}
		})
	}
}

func TestStdioFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("a"); err != nil {
		t.Fatal(err)
	}
	s := newStdio(f)
	if _, err := s.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got, err := os.ReadFile(f.Name()); string(got) != "ab" {
		t.Errorf("%q, %v: the position is the other process's", got, err)
	}
	if _, err := s.Write([]byte("c")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestStdioPipeWithoutReader is a closed pipe, not a blocked one.
func TestStdioPipeWithoutReader(t *testing.T) {
	r, w := pipe(t)
	r.Close()
	s := newStdio(w)
	defer s.Close()
	if _, err := s.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v", err)
	}
	fromR, fromW := pipe(t)
	conn, err := fromR.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	take := func() (err error) {
		_ = conn.Control(func(fd uintptr) { _, err = s.TakePipe(int(fd), 100) })
		return err
	}
	if err := take(); err != nil {
		t.Errorf("an empty pipe gives %v", err)
	}
	fromW.Close()
	if err := take(); err != io.EOF {
		t.Errorf("the end gives %v", err)
	}
}
