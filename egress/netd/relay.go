package netd

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/waiter"
)

// relay carries the bytes of one flow both ways between the stack and a socket,
// as long as neither has to be waited for. It has no buffer but for little: what
// one side cannot take stays in the other. All of it but NotifyEvent runs in the
// loop.
type relay struct {
	loop *loop
	flow *flow
	in   *inside
	up   syscall.RawConn
	key  int32 // guarded by loop.mu: where the loop has it; 0 if it does not
	due  bool  // guarded by loop.mu

	entry waiter.Entry
	turn  func(fd uintptr) // one turn of work on the socket
	fd    int              // during a turn

	// what the socket is known to be ready for
	readable, writable bool
	last               bool // nothing comes after what can be read
	marked             bool // there was urgent data: a read ends before it, and there is more
	much               bool // more than little came at once
	// rest is what was read and the stack had no room for
	rest   []byte
	reader bytes.Reader
	// directions that have ended
	sent, received bool
	again          bool
	failed         error
	done           chan struct{}
}

// newRelay makes a relay, which starts with add.
func newRelay(l *loop, fl *flow, in *inside, up syscall.RawConn) *relay {
	r := &relay{loop: l, flow: fl, in: in, up: up, readable: true, writable: true, done: make(chan struct{})}
	r.turn = func(fd uintptr) {
		r.fd = int(fd)
		r.failed = errors.Join(r.send(), r.receive())
	}
	r.entry.Init(r, waiter.ReadableEvents|waiter.WritableEvents|waiter.EventErr|waiter.EventHUp|waiter.EventRdHUp)
	return r
}

// run carries until both sides have ended, or one has failed.
func (r *relay) run() error {
	r.in.queue.EventRegister(&r.entry)
	defer r.in.queue.EventUnregister(&r.entry)
	defer r.flow.network.gate.lines.open(r.in.ep)()
	var err error
	if cerr := r.up.Control(func(fd uintptr) { err = r.loop.add(r, int(fd)) }); err != nil || cerr != nil {
		return errors.Join(err, cerr)
	}
	<-r.done
	return r.failed
}

// NotifyEvent is called when the stack has something, with locks held.
func (r *relay) NotifyEvent(waiter.EventMask) { r.loop.wake(r) }

// saw takes in what the socket is ready for.
func (r *relay) saw(events uint32) {
	r.last = r.last || events&(unix.EPOLLRDHUP|unix.EPOLLERR|unix.EPOLLHUP) != 0
	r.marked = r.marked || events&unix.EPOLLPRI != 0
	r.readable = r.readable || r.last || events&unix.EPOLLIN != 0
	r.writable = r.writable || events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0
}

// work does what can be done now. True means that there is more.
func (r *relay) work() bool {
	select {
	case <-r.done:
		return false
	default:
	}
	r.again = false
	if err := r.up.Control(r.turn); err != nil {
		r.failed = err // it was cut
	}
	if r.failed != nil || r.sent && r.received {
		r.end(r.failed)
		return false
	}
	return r.again
}

func (r *relay) end(err error) {
	r.failed = err
	r.loop.remove(r)
	r.loop.over = true
	close(r.done)
}

var (
	errStack     = errors.New("the program's side has failed")
	errFull      = errors.New("the socket is full")
	errExhausted = errors.New("there is no more to send")
)

// send carries what the program wrote.
func (r *relay) send() error {
	for !r.sent && r.writable {
		_, err := r.in.ep.Read((*socketWriter)(r), tcpip.ReadOptions{})
		if r.failed != nil {
			return r.failed
		}
		switch err.(type) {
		case nil:
		case *tcpip.ErrBadBuffer: // the socket took nothing
			return nil
		case *tcpip.ErrWouldBlock:
			return nil
		case *tcpip.ErrClosedForReceive:
			r.sent = true
			return unix.Shutdown(r.fd, unix.SHUT_WR)
		default:
			return errStack
		}
	}
	return nil
}

// socketWriter lets the stack write straight from its packets to the socket. The
// connection is locked meanwhile.
type socketWriter relay

func (w *socketWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if !w.flow.live.Sent(int64(len(b))) {
		w.failed = errExhausted
		return 0, errExhausted
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(w.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		n = 0
	}
	if errno == 0 {
		w.flow.out.Add(int64(n))
		w.flow.last.Store(time.Now().UnixNano())
	}
	if int(n) == len(b) {
		return len(b), nil
	}
	w.flow.live.Sent(int64(n) - int64(len(b)))
	switch errno {
	case 0, unix.EAGAIN:
		w.writable = false
		return int(n), errFull
	case unix.EINTR:
		w.again = true
		return 0, errFull
	}
	w.failed = errno
	return 0, errno
}

// mostAtOnce bounds what one flow gets before the others have their turn, in
// bytes.
const mostAtOnce = 1 << 20

// little is how much is read without asking first how much there is, in bytes.
const little = 8 << 10

// receive carries what the other side wrote.
func (r *relay) receive() error {
	for total := int64(0); !r.received && (r.readable || len(r.rest) > 0); {
		n, full, err := r.next()
		if err != nil || full { // the stack says when there is room
			return err
		}
		if total += n; total >= mostAtOnce && r.readable {
			r.again = true
			return nil
		}
	}
	return nil
}

// next carries some of what the other side wrote. full means that the stack has
// no room.
func (r *relay) next() (n int64, full bool, err error) {
	there := 0
	if r.much && len(r.rest) == 0 {
		if there, err = unix.IoctlGetInt(r.fd, unix.TIOCINQ); err != nil {
			return 0, false, err
		}
		r.much = there > little
	}
	var terr tcpip.Error
	if there > little {
		n, terr = r.in.ep.Write(&socketReader{r, min(there, mostAtOnce)}, tcpip.WriteOptions{})
		if r.failed != nil {
			return 0, false, r.failed
		}
		r.readable = int(n) < there || r.last || r.marked // what comes later is another event
	} else {
		b := r.rest
		if len(b) == 0 {
			if b, err = r.few(); len(b) == 0 {
				return 0, false, err
			}
		}
		r.reader.Reset(b)
		n, terr = r.in.ep.Write(&r.reader, tcpip.WriteOptions{})
		if r.rest = append(r.rest[:0], b[n:]...); len(r.rest) == 0 {
			r.rest = nil
		}
	}
	switch terr.(type) {
	case nil:
	case *tcpip.ErrWouldBlock:
		return 0, true, nil
	default:
		return 0, false, errStack
	}
	r.flow.in.Add(n)
	r.flow.last.Store(time.Now().UnixNano())
	return n, false, nil
}

// few reads what is there if it is little, into the loop's room. Nothing read
// may be the end.
func (r *relay) few() ([]byte, error) {
	room := r.loop.room[:]
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(r.fd), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN:
		r.readable = false
		return nil, nil
	case errno == unix.EINTR: // it is asked again
		return nil, nil
	case errno != 0:
		return nil, errno
	case n == 0:
		r.received = true
		if err := r.in.ep.Shutdown(tcpip.ShutdownWrite); err != nil {
			return nil, errStack
		}
		return nil, nil
	}
	r.much = int(n) == len(room)
	r.readable = r.much || r.last || r.marked // what comes later is another event
	return room[:n], nil
}

// socketReader lets the stack read straight from the socket into its packets:
// no more than is there.
type socketReader struct {
	relay *relay
	left  int
}

var _ tcpip.Payloader = (*socketReader)(nil)

// Len is how much is there.
func (p *socketReader) Len() int { return p.left }

func (p *socketReader) Read(b []byte) (int, error) {
	b = b[:min(len(b), p.left)]
	if len(b) == 0 {
		return 0, nil
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(p.relay.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		p.relay.failed = errno
		return 0, errno
	case n == 0:
		p.relay.failed = io.ErrUnexpectedEOF
		return 0, io.ErrUnexpectedEOF
	}
	p.left -= int(n)
	return int(n), nil
}
