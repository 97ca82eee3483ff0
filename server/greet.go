package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxPassed is how many descriptors a peer may pass: three streams, one more
// for the document of --meta and one for tools.
const maxPassed = 5

// greet finds out who is there and what they want: the first byte of the door
// is 0, with which no HTTP request begins. The descriptors of the door's
// callers come with it.
func (s *Server) greet(conn *net.UnixConn, feed *feed) {
	defer s.quiet.leave(conn)
	who, err := peerOf(conn)
	if err != nil || !s.self.admits(who) {
		conn.Close()
		<-s.room
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(greetTime))
	ending := context.AfterFunc(s.ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer ending()
	first, err := receive(conn)
	if err != nil || len(first.data) == 0 {
		first.drop()
		conn.Close()
		<-s.room
		return
	}
	if first.data[0] == 0 {
		s.door(conn, who, first)
		conn.Close()
		<-s.room
		return
	}
	s.quiet.leave(conn)
	first.drop() // HTTP has no use for descriptors
	_ = conn.SetReadDeadline(time.Time{})
	feed.add(&resumed{UnixConn: conn, read: first.data, who: who, gone: sync.OnceFunc(func() { <-s.room })})
}

// parcel is what one receive gave.
type parcel struct {
	data  []byte
	files []*os.File
}

func (p *parcel) drop() {
	for _, f := range p.files {
		f.Close()
	}
	p.files = nil
}

// firstRead is enough for an ordinary command line in one read.
const firstRead = 16 << 10

// receive reads once, descriptors included.
func receive(conn *net.UnixConn) (parcel, error) {
	p := parcel{data: make([]byte, firstRead)}
	control := make([]byte, unix.CmsgSpace(maxPassed*4))
	n, nc, flags, _, err := conn.ReadMsgUnix(p.data, control)
	p.data = p.data[:max(n, 0)]
	if nc > 0 {
		err = errors.Join(err, p.unpack(control[:nc]))
	}
	if flags&unix.MSG_CTRUNC != 0 {
		err = errors.Join(err, errors.New("cannot receive descriptors: there are too many"))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.drop()
	}
	return p, err
}

func (p *parcel) unpack(control []byte) error {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			p.files = append(p.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return nil
}

// resumed is a connection of which the first bytes have been read.
type resumed struct {
	*net.UnixConn
	read []byte
	who  peer
	gone func()
}

func (c *resumed) Read(p []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(p, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.UnixConn.Read(p)
}

func (c *resumed) Close() error {
	err := c.UnixConn.Close()
	c.gone()
	return err
}

// feed is the listener of the HTTP server: what greet hands on.
type feed struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newFeed(addr net.Addr) *feed {
	f := &feed{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	f.close = sync.OnceFunc(func() { close(f.done) })
	return f
}

func (f *feed) add(c net.Conn) {
	select {
	case f.conns <- c:
	case <-f.done:
		c.Close()
	}
}

func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

func (f *feed) Close() error   { f.close(); return nil }
func (f *feed) Addr() net.Addr { return f.addr }
