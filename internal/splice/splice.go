// Package splice moves what is in a pipe into another pipe without passing it
// through the memory of this process.
//
// It looks at nothing of what it moves, and changes no flag of the descriptors
// it is given. The pages themselves move, so the other pipe holds memory of who
// wrote them until it has been read. Everything else than pipes is refused: the
// caller copies. (Into files it was measured to be no faster.)
//
// It needs splice(2), which every kernel has that isolate runs on.
package splice

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Wide is what Widen makes a pipe hold, in bytes: what any user may ask for
// (fs.pipe-max-size as it comes).
const Wide = 1 << 20

// Widen makes a pipe hold more, so that who fills it and who empties it wake
// each other less often. A pipe that is as wide already stays as it is, and so
// does one whose user has no room left for it.
func Widen(pipe int) {
	if size, err := unix.FcntlInt(uintptr(pipe), unix.F_GETPIPE_SZ, 0); err == nil && size < Wide {
		_, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, Wide)
	}
}

// Sink is where a pipe is emptied into. One goroutine uses it at a time.
type Sink struct {
	conn syscall.RawConn
}

// NewSink says whether a pipe can be emptied into f: errors.ErrUnsupported if
// not. The file stays the caller's, and closing it ends what waits for it if it
// does not block.
func NewSink(f *os.File) (*Sink, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot use file: %w", err)
	}
	fits := false
	err = conn.Control(func(fd uintptr) {
		var st unix.Stat_t
		fits = unix.Fstat(int(fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
	})
	if err == nil && !fits {
		err = errors.ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	return &Sink{conn}, nil
}

// TakePipe moves what is in the pipe now, at least a byte and at most most; it
// waits for room, not for the pipe. The pipe is a descriptor that stays open
// meanwhile. Nothing and no error means that it is empty, io.EOF that nobody
// writes to it any more, errors.ErrUnsupported that the caller has to copy;
// other errors are the sink's, and nothing was moved.
func (s *Sink) TakePipe(pipe int, most int64) (int64, error) {
	var n int64
	var err error
	waited := s.conn.Write(func(fd uintptr) bool {
		n, err = move(int(fd), pipe, most)
		return err != unix.EAGAIN
	})
	switch {
	case waited != nil:
		return 0, waited
	case err == unix.EINVAL, err == unix.EPERM, err == unix.ENOSYS: // a filter says so, too
		return 0, errors.ErrUnsupported
	}
	return n, err
}

// Widen makes the sink hold more.
func (s *Sink) Widen() {
	_ = s.conn.Control(func(fd uintptr) { Widen(int(fd)) })
}

// move moves at most what a wide pipe holds, so that it returns before long. It
// gives EAGAIN if the sink has no room and can be waited for elsewhere.
func move(to, pipe int, most int64) (int64, error) {
	for {
		n, err := unix.Splice(pipe, nil, to, nil, int(min(most, Wide)), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err == unix.EPIPE:
			return 0, Unread(pipe)
		case err != unix.EAGAIN:
			return 0, err
		default:
			empty, full, err := room(to, pipe)
			if err != nil || empty {
				return 0, err
			}
			if !full {
				continue
			}
			flags, err := unix.FcntlInt(uintptr(to), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_NONBLOCK != 0 {
				return 0, unix.EAGAIN
			}
			if err := await(to); err != nil {
				return 0, err
			}
		}
	}
}

// Unread is what TakePipe gives for a sink that nobody reads: EPIPE if the pipe
// holds something, io.EOF at its end, nil if it is empty. splice(2) itself gives
// EPIPE at the end, too, where no byte is lost.
func Unread(pipe int) error {
	list := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
	for {
		switch _, err := unix.Poll(list, 0); {
		case err == unix.EINTR:
		case err != nil:
			return err
		case list[0].Revents&unix.POLLIN != 0:
			return unix.EPIPE
		case list[0].Revents != 0:
			return io.EOF
		default:
			return nil
		}
	}
}

// room says which side is the reason that nothing could be moved; neither is if
// it has changed since.
func room(to, pipe int) (empty, full bool, err error) {
	list := []unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}, {Fd: int32(pipe), Events: unix.POLLIN}}
	for {
		switch _, err := unix.Poll(list, 0); {
		case err == unix.EINTR:
		case err != nil:
			return false, false, err
		default:
			return list[1].Revents == 0, list[0].Revents == 0, nil
		}
	}
}

// await blocks as a write to a full pipe would.
func await(to int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(to), Events: unix.POLLOUT}}, -1)
		if err != unix.EINTR {
			return err
		}
	}
}
