package netd

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// line is the supervisor's socket. Its system calls are made raw, as the loop's
// are: the first one after a rest that the scheduler sees wakes its watching
// thread, which then looks every 20 microseconds. What there is to read the loop
// says.
type line struct {
	fd    int
	heard chan struct{} // nil as long as there is no loop
}

// attend has the loop watch. Nobody may be reading.
func (s *line) attend(l *loop) error {
	s.heard = make(chan struct{}, 1)
	return l.hear(s.fd, s.heard)
}

func (s *line) Read(b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0 && n == 0:
			return 0, io.EOF
		case errno == 0:
			return int(n), nil
		case errno == unix.EINTR:
		case errno != unix.EAGAIN:
			return 0, errno
		case s.heard != nil:
			<-s.heard
		default:
			s.wait(unix.POLLIN)
		}
	}
}

func (s *line) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[done])), uintptr(len(b)-done), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EAGAIN: // the supervisor is slow: its disk is
			s.wait(unix.POLLOUT)
		default:
			return done, errno
		}
	}
	return done, nil
}

// wait blocks a thread.
func (s *line) wait(events int16) {
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(s.fd), Events: events}}, nil, nil)
}

// end ends both directions. The descriptor stays: a flow that ends late writes
// to it, and its number must not be another socket's.
func (s *line) end() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) }
