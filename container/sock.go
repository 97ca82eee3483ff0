package container

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// sock is the supervisor's end of a SOCK_SEQPACKET pair: one message is one
// datagram, descriptors travel with it. It is used by one reader at a time and
// any number of writers.
type sock struct{ f *os.File }

// sockPair makes a connected pair. ours is in the runtime's poller and reports
// the sender's process id with every message; theirs is for the far side.
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
	return sock{os.NewFile(uintptr(fd[0]), "supervisor")}, os.NewFile(uintptr(fd[1]), "far side"), nil
}

// prepareSock makes a descriptor our end: who sent is known, and deadlines hold.
func prepareSock(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}

func (s sock) close() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

// setDeadline bounds the next reads; the zero time removes the bound.
func (s sock) setDeadline(t time.Time) { _ = s.f.SetReadDeadline(t) }

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
	c, err := s.f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = c.Write(func(fd uintptr) bool {
		serr = unix.Sendmsg(int(fd), msg, oob, nil, unix.MSG_NOSIGNAL)
		return serr != unix.EAGAIN
	})
	if err == nil {
		err = serr
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
	c, err := s.f.SyscallConn()
	if err != nil {
		return reply{}, err
	}
	var buf [64]byte
	var oob [96]byte
	var n, oobn int
	var rerr error
	err = c.Read(func(fd uintptr) bool {
		// ECONNRESET is told once, before what the far side said last: it has
		// ended without having read all that was sent to it
		for again := true; again; again = rerr == unix.EINTR || rerr == unix.ECONNRESET {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), buf[:], oob[:], unix.MSG_CMSG_CLOEXEC)
		}
		return rerr != unix.EAGAIN
	})
	if err == nil {
		err = rerr
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
