package netd

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// proxy serves one connection to the HTTP proxy of the gateway: CONNECT, and
// requests with whole URLs. It adds a way in, not another decision.
func (n *Network) proxy(c *inside) {
	br := bufio.NewReaderSize(c, maxHead)
	h, err := nextHead(c, br, n.times.Hello, n.times.Head)
	if err != nil {
		n.refuseProxy(c, egress.Event{}, egress.Decision{Reason: egress.ReasonMalformed}, http.StatusBadRequest)
		return
	}
	start, _ := br.Peek(len("CONNECT "))
	if bytes.Equal(start, []byte("CONNECT ")) {
		n.tunnel(c, br, h)
		return
	}
	if !h.absolute {
		n.refuseProxy(c, egress.Event{Host: h.host}, egress.Decision{Reason: egress.ReasonMalformed}, http.StatusBadRequest)
		return
	}
	_, authority := h.path()
	fl := n.flowTo(c, authority, "80")
	if fl == nil {
		return
	}
	defer fl.done()
	if fl.d.Allowed() && fl.d.Protocol != egress.HTTP && fl.d.Protocol != egress.TCP {
		fl.d.Verdict, fl.d.Reason = egress.Refuse, egress.ReasonProtoNotAllowed
	}
	if !fl.d.Allowed() {
		fl.refused()
		refuseHTTP(c, statusOf(fl.d.Reason), fl.d)
		return
	}
	fl.onCut(c.Abort)
	fl.f.Peek = &egress.Seen{Kind: egress.SeenHTTP, Host: h.host}
	if !fl.refine() {
		fl.refused()
		refuseHTTP(c, statusOf(fl.d.Reason), fl.d)
		return
	}
	fl.serveHTTP(&buffered{c, br}, proxied)
}

// tunnel serves CONNECT.
func (n *Network) tunnel(c *inside, br *bufio.Reader, h head) {
	if _, err := http.ReadRequest(br); err != nil {
		n.refuseProxy(c, egress.Event{Host: h.target}, egress.Decision{Reason: egress.ReasonNameInvalid}, http.StatusBadRequest)
		return
	}
	fl := n.flowTo(c, h.target, "")
	if fl == nil {
		return
	}
	if fl.d.Allowed() && !h.agrees() {
		fl.d.Verdict, fl.d.Reason = egress.Refuse, egress.ReasonHostMismatch
	}
	fl.through(&buffered{c, br}, []byte("HTTP/1.1 200 Connection established\r\n\r\n"), func(d egress.Decision) {
		status := statusOf(d.Reason)
		if d.Reason == egress.ReasonHostMismatch {
			status = http.StatusBadRequest // no other connection would be the right one
		}
		refuseHTTP(c, status, d)
	})
}

// through carries a flow that a proxy was asked for: granted tells the program
// that it may go on, refuse why not.
func (fl *flow) through(c *buffered, granted []byte, refuse func(egress.Decision)) {
	defer fl.done()
	if !fl.d.Allowed() {
		fl.refused()
		refuse(fl.d)
		return
	}
	if fl.d.Protocol.Peeks() {
		if _, err := c.Write(granted); err == nil {
			fl.serve(c)
		}
		return
	}
	up, err := fl.connect(fl.network.ctx, "tcp")
	if err != nil {
		fl.refused()
		refuse(fl.d)
		return
	}
	defer up.Close()
	fl.onCut(c.Abort)
	if _, err := c.Write(granted); err == nil {
		fl.splice(c, nil, up)
	}
}

// flowTo opens the flow to the authority of a request, which may be refused;
// nil if that is none, which the program has been told then.
func (n *Network) flowTo(c *inside, authority, port string) *flow {
	host, p, err := net.SplitHostPort(authority)
	if err != nil {
		host, p = authority, port
	}
	if p == "" {
		p = port // an empty port is none
	}
	number, err := strconv.ParseUint(p, 10, 16)
	var fl *flow
	if err == nil {
		fl, err = n.asked(egress.ViaConnect, host, uint16(number))
	}
	if err != nil {
		n.refuseProxy(c, egress.Event{Host: authority}, egress.Decision{Reason: egress.ReasonNameInvalid}, http.StatusBadRequest)
		return nil
	}
	return fl
}

// asked opens the flow that a proxy was asked for, which may be refused. An
// error means that it could be none.
func (n *Network) asked(via egress.Via, host string, port uint16) (*flow, error) {
	target, err := egress.ParseHost(host)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, errors.New("no port")
	}
	f := egress.Flow{Host: target, Port: port, Transport: egress.OverTCP}
	if target.Name == "" { // an address stands for its names, whichever way it comes in
		if known := n.destination(target.Addr.Unmap(), port, egress.OverTCP); known.Host.Name != "" || known.Names != nil {
			f = known
		}
	}
	return n.newFlow(via, netip.AddrPort{}, f), nil
}

// refuseProxy refuses what is not a flow yet.
func (n *Network) refuseProxy(c *inside, e egress.Event, d egress.Decision, status int) {
	e.Type, e.Via, e.Proto, e.Reason = egress.EventDeny, egress.ViaConnect, "tcp", d.Reason
	n.events.deny(e)
	refuseHTTP(c, status, d)
}

// buffered is a connection of which a reader has some already.
type buffered struct {
	*inside
	br *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.br.Read(p) }

func (b *buffered) bare() (*inside, []byte) {
	rest, _ := b.br.Peek(b.br.Buffered())
	return b.inside, rest
}

func (b *buffered) SetReadDeadline(t time.Time) error { return b.inside.SetReadDeadline(t) }
