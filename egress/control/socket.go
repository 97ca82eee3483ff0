package control

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket reads and writes a socket that does not block. Its system calls are made
// raw: the first one after a rest that the scheduler sees wakes its watching
// thread, which then looks every 20 microseconds and has the other processor, if
// there are two.
type socket struct{ conn syscall.RawConn }

func newSocket(f *os.File) (socket, error) {
	c, err := f.SyscallConn()
	return socket{c}, err
}

func (s socket) Read(b []byte) (n int, err error) {
	werr := s.conn.Read(func(fd uintptr) bool {
		n, err = Receive(fd, b)
		return err != unix.EAGAIN
	})
	if werr != nil {
		return 0, werr
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (s socket) Write(b []byte) (int, error) {
	done := 0
	var err error
	werr := s.conn.Write(func(fd uintptr) bool {
		for err = nil; err == nil && done < len(b); {
			var n int
			n, err = Send(fd, b[done:])
			done += n
		}
		return err != unix.EAGAIN
	})
	if werr != nil {
		return done, werr
	}
	return done, err
}

// Receive reads what a socket has, raw; EAGAIN says that it has nothing.
func Receive(fd uintptr, b []byte) (int, error) { return transfer(unix.SYS_RECVFROM, fd, b) }

// Send writes what a socket takes, raw; EAGAIN says that it takes nothing.
func Send(fd uintptr, b []byte) (int, error) { return transfer(unix.SYS_SENDTO, fd, b) }

// transfer is one of the two calls that take the same arguments.
func transfer(call, fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
