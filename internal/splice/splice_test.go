package splice

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

// blocking is a pipe as most processes have theirs.
func blocking(t *testing.T) (r, w *os.File) {
	t.Helper()
	return open(t, 0)
}

// polled is a pipe whose ends the run time waits for.
func polled(t *testing.T) (r, w *os.File) {
	t.Helper()
	return open(t, unix.O_NONBLOCK)
}

func open(t *testing.T, flags int) (r, w *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|flags); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

var kinds = map[string]func(*testing.T) (r, w *os.File){"blocking": blocking, "polled": polled}

func number(t *testing.T, f *os.File) int {
	t.Helper()
	n := -1
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { n = int(fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sink(t *testing.T, f *os.File) *Sink {
	t.Helper()
	s, err := NewSink(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTakePipe(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			from, writes := blocking(t)
			reads, to := kind(t)
			s := sink(t, to)
			if n, err := s.TakePipe(number(t, from), 100); n != 0 || err != nil {
				t.Errorf("an empty pipe gives %d, %v", n, err)
			}
			io.WriteString(writes, "all that is there")
			if n, err := s.TakePipe(number(t, from), 3); n != 3 || err != nil {
				t.Errorf("three of more give %d, %v", n, err)
			}
			if n, err := s.TakePipe(number(t, from), 100); n != 14 || err != nil {
				t.Errorf("the rest gives %d, %v", n, err)
			}
			writes.Close()
			if n, err := s.TakePipe(number(t, from), 100); n != 0 || err != io.EOF {
				t.Errorf("the end gives %d, %v", n, err)
			}
			to.Close()
			if got, err := io.ReadAll(reads); string(got) != "all that is there" || err != nil {
				t.Errorf("%q arrives, %v", got, err)
			}
		})
	}
}

// A sink without room is waited for, and what is not moved stays in the pipe.
func TestTakePipeWaitsForRoom(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			from, writes := blocking(t)
			reads, to := kind(t)
			before, _ := unix.FcntlInt(uintptr(number(t, to)), unix.F_GETFL, 0)
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			go func() { writes.Write(data); writes.Close() }()
			moved := make(chan error, 1)
			s := sink(t, to)
			go func() {
				defer to.Close()
				for {
					_, err := s.TakePipe(number(t, from), 1<<30)
					if err != nil {
						moved <- err
						return
					}
				}
			}()
			select {
			case err := <-moved:
				t.Fatalf("a full pipe is not waited for: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			after, _ := unix.FcntlInt(uintptr(number(t, to)), unix.F_GETFL, 0)
			if before != after {
				t.Errorf("the flags were %#x and are %#x", before, after)
			}
			if got, err := io.ReadAll(reads); !bytes.Equal(got, data) || err != nil {
				t.Errorf("%d of %d bytes arrive, %v", len(got), len(data), err)
			}
			if err := <-moved; err != io.EOF {
				t.Error(err)
			}
		})
	}
}

// What waits for room is told to stop by the end of the sink.
func TestTakePipeLetsGo(t *testing.T) {
	from, writes := blocking(t)
	_, to := polled(t)
	for full := false; !full; {
		_, err := unix.Write(number(t, to), make([]byte, 4096))
		full = err == unix.EAGAIN
	}
	io.WriteString(writes, "x")
	over := make(chan error, 1)
	s := sink(t, to)
	go func() { _, err := s.TakePipe(number(t, from), 100); over <- err }()
	select {
	case err := <-over:
		t.Fatalf("a full pipe is not waited for: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	to.Close()
	select {
	case err := <-over:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(60 * time.Second):
		t.Fatal("still waiting")
	}
}

func TestTakePipeEndsWithItsReader(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			from, writes := blocking(t)
			reads, to := kind(t)
			io.WriteString(writes, "x")
			reads.Close()
			if n, err := sink(t, to).TakePipe(number(t, from), 100); n != 0 || err != unix.EPIPE {
				t.Errorf("%d, %v", n, err)
			}
			got := make([]byte, 1)
			if _, err := from.Read(got); err != nil || got[0] != 'x' {
				t.Errorf("what was not moved is gone: %q, %v", got, err)
			}
		})
	}
}

// Who reads a line and goes away loses nothing of a program that writes no more:
// `isolate exec -- echo 42 | grep -q 42` gave 141 (CI of 29f8282).
func TestTakePipeOfNothingNeedsNoReader(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			from, writes := blocking(t)
			reads, to := kind(t)
			reads.Close()
			s := sink(t, to)
			if n, err := s.TakePipe(number(t, from), 100); n != 0 || err != nil {
				t.Errorf("an empty pipe gives %d, %v", n, err)
			}
			writes.Close()
			if n, err := s.TakePipe(number(t, from), 100); n != 0 || err != io.EOF {
				t.Errorf("the end gives %d, %v", n, err)
			}
		})
	}
}

func TestOnlyPipesAreSinks(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, f := range []*os.File{file, null} {
		if _, err := NewSink(f); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}

func TestWiden(t *testing.T) {
	_, w := blocking(t)
	fd := number(t, w)
	Widen(fd)
	size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil || size != Wide && size > 64<<10 { // 64 KiB: the user has no room left
		t.Errorf("%d, %v", size, err)
	}
}
