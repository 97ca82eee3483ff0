package container

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// sock is the supervisor's end of a SOCK_SEQPACKET pair: one message is one
// datagram, descriptors travel with it. It is used by one reader at a time and
// any number of writers.
type sock struct{ *end }

// end is what the copies of a sock share.
//
// It enters the run time's poller when it has to wait for the first time. Most
// of what the far side says in the making of a sandbox is there before it is
// asked for, and a socket in the poller wakes a thread with each message that
// comes, and with each that the far side takes.
type end struct {
	mu       sync.Mutex
	fd       int      // -1 once closed, or in f
	f        *os.File // in the poller; nil before
	deadline time.Time
}

// newSock takes a socket over, which must not block.
func newSock(fd int) sock { return sock{&end{fd: fd}} }

// sockPair makes a connected pair. ours reports the sender's process id with
// every message; theirs is for the far side.
func sockPair() (ours sock, theirs *os.File, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return sock{}, nil, fmt.Errorf("cannot make socket pair: %w", err)
	}
	if err := prepareSock(fd[0]); err != nil {
		unix.Close(fd[0])
		unix.Close(fd[1])
		return sock{}, nil, fmt.Errorf("cannot prepare socket pair: %w", err)
	}
	return newSock(fd[0]), os.NewFile(uintptr(fd[1]), "far side"), nil
}

// prepareSock makes a descriptor our end: who sent is known, and deadlines hold.
func prepareSock(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}

func (s sock) close() error {
	if s.end == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil {
		return s.f.Close()
	}
	if s.fd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

// setDeadline bounds the next reads; the zero time removes the bound.
func (s sock) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline = t; s.f != nil {
		_ = s.f.SetReadDeadline(t)
	}
}

// atOnce makes a call that does not wait, or enters the poller: wait is what
// then waits until the call can be made.
func (s sock) atOnce(call func(fd int) error) (wait syscall.RawConn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.fd < 0 {
			return nil, os.ErrClosed
		}
		if err := call(s.fd); err != unix.EAGAIN {
			return nil, err
		}
		s.f, s.fd = os.NewFile(uintptr(s.fd), "supervisor"), -1
		if !s.deadline.IsZero() {
			_ = s.f.SetReadDeadline(s.deadline)
		}
	}
	return s.f.SyscallConn()
}

// over tells whether the far side has ended.
func (s sock) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return s.fd < 0 || hungUp(s.fd, 0)
	}
	over := true
	if conn, err := s.f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { over = hungUp(int(fd), 0) }) // if not closed
	}
	return over
}

// hungUp tells, without waiting, whether a descriptor has one of the events, or
// is of something whose other side is gone.
func hungUp(fd int, events int16) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(p, 0)
	for err == unix.EINTR {
		n, err = unix.Poll(p, 0)
	}
	return n > 0 || err != nil
}

// send sends one message with descriptors. A message that is too long for a
// datagram travels in a memfd.
func (s sock) send(msg []byte, fds ...int) error {
	if len(msg) > keeper.MaxMessage {
		mem, err := bigMessage(msg)
		if err != nil {
			return err
		}
		defer unix.Close(mem)
		fds = append([]int{mem}, fds...)
		msg = keeper.Message(keeper.MsgTape, keeper.FlagBig, 0, 0, 0, uint64(len(msg)))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	call := func(fd int) error { return unix.Sendmsg(fd, msg, oob, nil, unix.MSG_NOSIGNAL) }
	wait, err := s.atOnce(call)
	if wait != nil {
		var told error
		err = wait.Write(func(fd uintptr) bool {
			told = call(int(fd))
			return told != unix.EAGAIN
		})
		if err == nil {
			err = told
		}
	}
	if err != nil {
		return fmt.Errorf("cannot send to the far side: %w", err)
	}
	return nil
}

func bigMessage(msg []byte) (int, error) {
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("cannot make memfd for a long message: %w", err)
	}
	for len(msg) > 0 {
		n, err := unix.Write(fd, msg)
		if err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("cannot fill memfd of a long message: %w", err)
		}
		msg = msg[n:]
	}
	return fd, nil
}

// reply is a report with what came along.
type reply struct {
	keeper.Report
	pid int      // the sender, as this process sees it
	fd  *os.File // nil if no descriptor came
}

// errEnded means that the far end of a socket is closed.
var errEnded = fmt.Errorf("the far side has ended: %w", os.ErrClosed)

// recv reads one report.
func (s sock) recv() (reply, error) {
	var buf [64]byte
	var oob [96]byte
	var n, oobn int
	call := func(fd int) (err error) {
		// ECONNRESET is told once, before what the far side said last: it has
		// ended without having read all that was sent to it
		for again := true; again; again = err == unix.EINTR || err == unix.ECONNRESET {
			n, oobn, _, _, err = unix.Recvmsg(fd, buf[:], oob[:], unix.MSG_CMSG_CLOEXEC)
		}
		return err
	}
	wait, err := s.atOnce(call)
	if wait != nil {
		var told error
		err = wait.Read(func(fd uintptr) bool {
			told = call(int(fd))
			return told != unix.EAGAIN
		})
		if err == nil {
			err = told
		}
	}
	if err == nil && n == 0 {
		return reply{}, errEnded
	}
	if err != nil {
		return reply{}, fmt.Errorf("cannot read from the far side: %w", err)
	}
	r := reply{}
	if err := r.control(oob[:oobn]); err != nil {
		return reply{}, err
	}
	r.Report, err = keeper.DecodeReport(buf[:n])
	if err != nil {
		r.close()
		return reply{}, err
	}
	return r, nil
}

// control takes credentials and descriptors out of the control messages.
func (r *reply) control(oob []byte) error {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("cannot decode control message: %w", err)
	}
	for i := range msgs {
		switch {
		case msgs[i].Header.Type == unix.SCM_RIGHTS:
			fds, err := unix.ParseUnixRights(&msgs[i])
			if err != nil {
				return fmt.Errorf("cannot decode descriptors: %w", err)
			}
			for j, fd := range fds {
				if j == 0 && r.fd == nil {
					r.fd = os.NewFile(uintptr(fd), "from the far side")
				} else {
					unix.Close(fd)
				}
			}
		case msgs[i].Header.Type == unix.SCM_CREDENTIALS:
			cred, err := unix.ParseUnixCredentials(&msgs[i])
			if err != nil {
				return fmt.Errorf("cannot decode credentials: %w", err)
			}
			r.pid = int(cred.Pid)
		}
	}
	return nil
}

func (r *reply) close() {
	if r.fd != nil {
		r.fd.Close()
		r.fd = nil
	}
}
