package netd

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/egress/control"
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
		switch n, err := control.Receive(uintptr(s.fd), b); {
		case err == nil && n == 0:
			return 0, io.EOF
		case err != unix.EAGAIN:
			return n, err
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
		n, err := control.Send(uintptr(s.fd), b[done:])
		done += n
		switch err {
		case nil:
		case unix.EAGAIN: // the supervisor is slow: its disk is
			s.wait(unix.POLLOUT)
		default:
			return done, err
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
