package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/splice"
)

// Stdio is a descriptor of another process, made fit for reading and writing
// here: what waits for it can be told to stop, and the flags that it shares
// with the other process are not changed. One goroutine may read and one may
// write at a time.
//
// A pipe or a terminal is opened anew, without blocking, when it is first
// used. A socket is asked not to block with each call. Everything else is
// waited for before each call; only a file can then still block, for as long
// as its file system does.
type Stdio struct {
	file *os.File
	kind stdioKind
	tty  uint32 // number of the terminal that it is; 0 is that it is none
	job  *job   // of who has the terminal; nil is that nobody is held back

	mu     sync.Mutex
	anew   *os.File // nil: not opened, or cannot be
	tried  bool
	sink   *splice.Sink // nil: not made, or cannot be
	sunk   bool         // it was tried
	closed bool
	wake   [2]*os.File // a pipe whose end of file ends waiting; nil: none needed yet
	users  int         // of wake
}

type stdioKind int

const (
	stdioFile   stdioKind = iota // files, directories, block devices, /dev/null
	stdioStream                  // pipes and terminals
	stdioSocket
	stdioOther // other devices, eventfds and the like
)

// newStdio takes the file over.
func newStdio(f *os.File) *Stdio {
	s := &Stdio{file: f, kind: stdioOther}
	st, err := f.Stat()
	if err != nil {
		return s
	}
	switch mode := st.Mode(); {
	case mode.IsRegular(), mode.IsDir(), isNull(st):
		s.kind = stdioFile
	case mode&os.ModeNamedPipe != 0:
		s.kind = stdioStream
	case mode&os.ModeSocket != 0:
		s.kind = stdioSocket
	case mode&os.ModeCharDevice == 0 && mode&os.ModeDevice != 0:
		s.kind = stdioFile
	case s.isTerminal():
		s.kind = stdioStream
		_ = s.control(func(fd int) (err error) {
			s.tty, err = unix.IoctlGetUint32(fd, unix.TIOCGDEV)
			return err
		})
	}
	return s
}

func isNull(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.Mode()&os.ModeCharDevice != 0 && unix.Major(sys.Rdev) == 1 && unix.Minor(sys.Rdev) == 3
}

func (s *Stdio) isPipe() bool {
	st, err := s.file.Stat()
	return err == nil && st.Mode()&os.ModeNamedPipe != 0
}

func (s *Stdio) isTerminal() bool {
	is := false
	_ = s.control(func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		is = err == nil
		return nil
	})
	return is
}

// SyscallConn gives the descriptor itself, for asking and setting.
func (s *Stdio) SyscallConn() (syscall.RawConn, error) { return s.file.SyscallConn() }

func (s *Stdio) control(f func(fd int) error) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return os.ErrClosed
	}
	return inner
}

// AwaitTerminal waits until who gave us a terminal may set its modes.
func (s *Stdio) AwaitTerminal() error { return s.await(toSet) }

// await waits until who gave us a terminal may use it in that way.
func (s *Stdio) await(what use) error {
	if s.tty == 0 || s.job == nil {
		return nil
	}
	return s.job.await(s, what)
}

// holdsWriters says whether who writes to the terminal in the background is
// stopped.
func (s *Stdio) holdsWriters() bool {
	holds := false
	_ = s.control(func(fd int) error {
		modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		holds = err == nil && modes.Lflag&unix.TOSTOP != 0
		return err
	})
	return holds
}

func (s *Stdio) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends what waits, and gives the descriptor back. It is idempotent.
func (s *Stdio) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	if s.job != nil {
		s.job.look()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.anew != nil {
		s.anew.Close()
	}
	if s.wake[1] != nil {
		s.wake[1].Close()
		s.dropWaker()
	}
	return s.file.Close()
}

// stream is the pipe or terminal opened anew; nil without an error if it has
// to do as it is.
func (s *Stdio) stream() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	if s.kind != stdioStream || s.tried {
		return s.anew, nil
	}
	s.tried = true
	err := s.control(func(fd int) error {
		fresh, err := openAnew(fd)
		if err == nil {
			s.anew = os.NewFile(uintptr(fresh), "stream")
		}
		return err
	})
	if err == unix.ENXIO && s.isPipe() { // that nobody reads
		return nil, unix.EPIPE
	}
	return s.anew, nil
}

// openAnew opens the pipe or terminal behind fd another time, without blocking.
func openAnew(fd int) (int, error) {
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, err
	}
	var is, got unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return -1, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if is.Mode&unix.S_IFMT == unix.S_IFCHR {
		// /dev/tty is whose opens it: the terminal is to be opened by its own name
		dev, err := unix.IoctlGetUint32(fd, unix.TIOCGDEV)
		if err != nil {
			return -1, err
		}
		is.Rdev = uint64(dev)
		if unix.Major(is.Rdev) == firstPTS {
			path = fmt.Sprintf("/dev/pts/%d", unix.Minor(is.Rdev))
		}
	}
	fresh, err := unix.Open(path, mode&unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(fresh, &got); err != nil || got.Rdev != is.Rdev {
		unix.Close(fresh)
		return -1, unix.ENODEV
	}
	return fresh, nil
}

// firstPTS is the major number of pseudo-terminals (UNIX98_PTY_SLAVE_MAJOR).
const firstPTS = 136

func (s *Stdio) Read(p []byte) (int, error) {
	f, err := s.stream()
	if err != nil {
		return 0, err
	}
	if f == nil && s.kind == stdioFile {
		f = s.file
	}
	if f != nil && s.tty != 0 {
		return s.readTerminal(f, p)
	}
	if f != nil {
		return f.Read(p)
	}
	n, err := s.waiting(unix.POLLIN, func(fd int) (int, error) {
		if s.kind == stdioSocket {
			n, _, err := unix.Recvfrom(fd, p, unix.MSG_DONTWAIT)
			return n, err
		}
		return unix.Read(fd, p)
	})
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// readTerminal reads from a terminal that was opened anew. Who is allowed to may
// be so no longer when there is something to be read.
func (s *Stdio) readTerminal(f *os.File, p []byte) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	for {
		if err := s.await(toRead); err != nil {
			return 0, err
		}
		n, failed, waited := 0, error(nil), false
		err := raw.Read(func(fd uintptr) bool {
			if waited {
				return true
			}
			n, failed = unix.Read(int(fd), p)
			waited = failed == unix.EAGAIN
			return !waited
		})
		switch {
		case err != nil:
			return 0, err
		case failed == unix.EAGAIN, failed == unix.EINTR:
		case failed != nil:
			return 0, os.NewSyscallError("read", failed)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// smallWrite is what a pipe that has room takes without blocking (PIPE_BUF).
const smallWrite = 4096

func (s *Stdio) Write(p []byte) (int, error) {
	f, err := s.stream()
	if err != nil {
		return 0, err
	}
	if f == nil && s.kind == stdioFile {
		f = s.file
	}
	if f != nil && s.tty != 0 {
		return s.writeTerminal(f, p)
	}
	if f != nil {
		return f.Write(p)
	}
	done := 0
	for done < len(p) {
		n, err := s.waiting(unix.POLLOUT, func(fd int) (int, error) {
			if s.kind == stdioSocket {
				return unix.SendmsgN(fd, p[done:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			}
			return unix.Write(fd, p[done:min(len(p), done+smallWrite)])
		})
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// writeTerminal writes to a terminal that was opened anew, so little at a time
// that who is stopped (Ctrl-Z) is soon silent.
func (s *Stdio) writeTerminal(f *os.File, p []byte) (int, error) {
	for done := 0; ; {
		if err := s.await(toWrite); err != nil {
			return done, err
		}
		n, err := f.Write(p[done:min(len(p), done+smallWrite)])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// TakePipe moves what is in a pipe here; splice.Sink says how.
func (s *Stdio) TakePipe(pipe int, most int64) (int64, error) {
	sink, err := s.pipeSink()
	if err == unix.EPIPE {
		err = splice.Unread(pipe)
	}
	if sink == nil {
		return 0, err
	}
	return sink.TakePipe(pipe, most)
}

// Widen makes a pipe hold more; the other process has it as wide then, too.
func (s *Stdio) Widen() {
	if sink, err := s.pipeSink(); err == nil {
		sink.Widen()
	}
}

// pipeSink is the sink of the stream, if it can be one.
func (s *Stdio) pipeSink() (*splice.Sink, error) {
	f, err := s.stream()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, os.ErrClosed
	case !s.sunk && f != nil:
		s.sink, err = splice.NewSink(f)
	}
	s.sunk = true
	if s.sink == nil && err == nil {
		err = errors.ErrUnsupported
	}
	return s.sink, err
}

// waiting calls do when the descriptor is ready, until it says something else
// than that it would block, or the Stdio is closed.
func (s *Stdio) waiting(event int16, do func(fd int) (int, error)) (int, error) {
	wake, err := s.waker()
	if err != nil {
		return 0, err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users--
		s.dropWaker()
	}()
	n := 0
	err = s.control(func(fd int) error {
		for {
			if err := await(fd, int(wake.Fd()), event); err != nil {
				return err
			}
			n, err = do(fd)
			if err == unix.EAGAIN || err == unix.EINTR {
				continue
			}
			return err
		}
	})
	return max(n, 0), err
}

// dropWaker gives the pipe back when nobody will wait for it any more.
func (s *Stdio) dropWaker() {
	if s.closed && s.users == 0 {
		s.wake[0].Close()
	}
}

// waker is the end of a pipe that ends when the Stdio is closed. The caller
// counts as a user from now on.
func (s *Stdio) waker() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	if s.wake[0] == nil {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("cannot make pipe: %w", err)
		}
		s.wake = [2]*os.File{os.NewFile(uintptr(p[0]), "wake"), os.NewFile(uintptr(p[1]), "wake")}
	}
	s.users++
	return s.wake[0], nil
}

func await(fd, wake int, event int16) error {
	for {
		list := []unix.PollFd{{Fd: int32(fd), Events: event}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(list, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case list[1].Revents != 0:
			return os.ErrClosed
		case list[0].Revents != 0:
			return nil
		}
	}
}
