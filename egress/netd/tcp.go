package netd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/isolate-run/isolate/egress"
)

// Ports of the gateway.
const (
	dnsPort   = 53
	proxyPort = 3128
	socksPort = 1080
)

// inside is the program's side of a connection.
type inside struct {
	*gonet.TCPConn
	ep    tcpip.Endpoint
	queue *waiter.Queue
}

// Abort resets the connection.
func (c *inside) Abort() { c.ep.Abort() }

func (c *inside) bare() (*inside, []byte) { return c, nil }

// deskAt is what of ours is at an address; nil if nothing is.
func (n *Network) deskAt(dst netip.AddrPort) func(*inside) {
	switch atGateway := dst.Addr() == Gateway || dst.Addr() == gateway6; {
	case dst.Port() == dnsPort:
		return func(c *inside) { n.dnsOverTCP(c, dst) }
	case !atGateway:
		return nil
	case dst.Port() == proxyPort:
		return n.proxy
	case dst.Port() == socksPort:
		return n.socks
	}
	return nil
}

// tcp takes a connection of the program's. It runs in a goroutine of its own.
func (n *Network) tcp(r *tcp.ForwarderRequest) {
	n.work.Add(1)
	defer n.work.Done()
	id := r.ID()
	dst := addrPort(id.LocalAddress, id.LocalPort)
	if desk := n.deskAt(dst); desk != nil {
		leave, ok := admit(n.desk)
		if !ok {
			n.events.deny(egress.Event{Type: egress.EventDeny, Via: egress.ViaTUN, Proto: "tcp", Dst: dst, Port: dst.Port(), Reason: egress.ReasonLimitFlows})
			r.Complete(true)
			return
		}
		defer leave()
		n.accepted(r, desk)
		return
	}
	fl := n.newFlow(egress.ViaTUN, dst, n.destination(dst.Addr(), dst.Port(), egress.OverTCP))
	defer fl.done()
	if !fl.d.Allowed() {
		fl.refused()
		r.Complete(true)
		return
	}
	if fl.d.Protocol.Peeks() {
		n.accepted(r, func(c *inside) { fl.serve(c) })
		return
	}
	// who is called may speak first, and its refusal is to be seen: dial first
	up, recorded, err := fl.reach(n.ctx, "tcp")
	if err != nil {
		fl.refused()
		r.Complete(true)
		return
	}
	defer up.Close()
	// the program's handshake takes its time while the opening is recorded;
	// nothing else happens before it is
	recorded = sync.OnceValue(recorded)
	defer recorded() // also of a program that is gone: the flow ends behind it
	n.accepted(r, func(c *inside) {
		fl.onCut(c.Abort)
		if recorded() != nil {
			fl.refused()
			c.Abort()
			return
		}
		fl.splice(c, nil, up)
	})
}

// accepted completes the handshake and serves.
func (n *Network) accepted(r *tcp.ForwarderRequest, serve func(*inside)) {
	var wq waiter.Queue
	ep, err := r.CreateEndpoint(&wq)
	if err != nil {
		r.Complete(true)
		return
	}
	r.Complete(false)
	ep.SocketOptions().SetKeepAlive(true)
	ep.SocketOptions().SetDelayOption(false)
	c := &inside{gonet.NewTCPConn(&wq, ep), ep, &wq}
	stop := context.AfterFunc(n.ctx, c.Abort)
	defer stop()
	defer c.Close()
	serve(c)
}

// serve carries an accepted connection of a protocol that says what it is for.
func (fl *flow) serve(c bareConn) {
	fl.onCut(c.Abort)
	head, seen := peek(c, fl.network.times.Hello)
	if seen.Kind == egress.SeenHTTP && len(fl.f.Names) > 0 {
		head, seen.Host = fl.hostOf(c, head)
	}
	fl.f.Peek = &seen
	if !fl.refine() {
		fl.refused()
		if seen.Kind == egress.SeenTLS {
			_, _ = c.Write(alert)
			return
		}
		c.Abort()
		return
	}
	switch {
	case fl.d.Protocol == egress.HTTP:
		fl.serveHTTP(replayed(c, head), plain)
	case fl.d.TLS == egress.Intercept:
		fl.intercept(replayed(c, head))
	default:
		up, err := fl.connect(fl.network.ctx, "tcp")
		if err != nil {
			fl.refused()
			_, _ = c.Write(alert)
			return
		}
		defer up.Close()
		fl.splice(c, head, up)
	}
}

// alert is a fatal TLS alert: access denied (RFC 8446, 6.2).
var alert = []byte{21, 3, 3, 0, 2, 2, 49}

// conn is a connection of the program's.
type conn interface {
	net.Conn
	Abort()
	CloseWrite() error
}

// bareConn is one whose bytes are those of the stack.
type bareConn interface {
	conn
	// bare is the connection, and what of it has been read but not taken.
	bare() (*inside, []byte)
}

// replay is a connection whose first bytes have been read.
type replay struct {
	conn
	head *bytes.Reader
}

func replayed(c conn, head []byte) conn { return &replay{c, bytes.NewReader(head)} }

func (r *replay) Read(b []byte) (int, error) {
	if r.head.Len() > 0 {
		return r.head.Read(b)
	}
	return r.conn.Read(b)
}

// bufferPool holds the buffers of splice.
var bufferPool = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// splice carries bytes both ways until both sides have ended, one was cut, or
// nothing came for too long. Each direction ends by itself. head is what was
// read of c before.
func (fl *flow) splice(c bareConn, head []byte, up *counted) {
	in, rest := c.bare()
	for _, b := range [][]byte{head, rest} {
		if len(b) == 0 {
			continue
		}
		if _, err := up.Write(b); err != nil {
			c.Abort()
			return
		}
	}
	raw, err := up.raw()
	if err == nil {
		fl.last.Store(time.Now().UnixNano())
		watch := make(chan struct{})
		go fl.watchIdle(watch)
		defer close(watch)
		err = newRelay(fl.network.loop, fl, in, raw).run()
	}
	if errors.Is(err, errExhausted) {
		fl.cut(egress.ReasonRuleExhausted)
	}
	if err != nil {
		c.Abort()
		abort(up)
	}
}

// watchIdle cuts a flow that is silent for too long.
func (fl *flow) watchIdle(done <-chan struct{}) {
	wait := fl.network.times.Idle
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
		}
		silent := time.Since(time.Unix(0, fl.last.Load()))
		if silent >= wait {
			fl.cut(egress.ReasonIdle)
			return
		}
		t.Reset(wait - silent)
	}
}

// carry copies one direction. It goes around io.Copy: the ways that takes would
// leave the counting out.
func carry(to io.Writer, from io.Reader) error {
	b := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(b)
	for {
		n, err := from.Read(*b)
		if n > 0 {
			if _, werr := to.Write((*b)[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
