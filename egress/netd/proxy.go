package netd

import (
	"bufio"
	"bytes"
	"io"
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
	fl, ok := n.proxyFlow(c, authority, "80")
	if !ok {
		return
	}
	defer fl.done()
	if fl.d.Protocol != egress.HTTP && fl.d.Protocol != egress.TCP {
		fl.d.Verdict, fl.d.Reason = egress.Refuse, egress.ReasonProtoNotAllowed
		fl.refused()
		refuseHTTP(c, http.StatusForbidden, fl.d)
		return
	}
	fl.onCut(c.Abort)
	fl.f.Peek = &egress.Seen{Kind: egress.SeenHTTP, Host: h.host}
	fl.serveHTTP(&buffered{c, br}, proxied)
}

// tunnel serves CONNECT.
func (n *Network) tunnel(c *inside, br *bufio.Reader, h head) {
	if _, err := http.ReadRequest(br); err != nil {
		n.refuseProxy(c, egress.Event{Host: h.target}, egress.Decision{Reason: egress.ReasonNameInvalid}, http.StatusBadRequest)
		return
	}
	fl, ok := n.proxyFlow(c, h.target, "")
	if !ok {
		return
	}
	defer fl.done()
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	rest := &buffered{c, br}
	if peeks(fl.d.Protocol) {
		if _, err := io.WriteString(c, established); err == nil {
			fl.serve(rest)
		}
		return
	}
	up, err := fl.connect(n.ctx, "tcp")
	if err != nil {
		fl.refused()
		refuseHTTP(c, statusOf(fl.d.Reason), fl.d)
		return
	}
	defer up.Close()
	fl.onCut(c.Abort)
	if _, err := io.WriteString(c, established); err == nil {
		fl.splice(rest, nil, up)
	}
}

// proxyFlow opens the flow to an authority, or refuses it.
func (n *Network) proxyFlow(c *inside, authority, port string) (*flow, bool) {
	host, p, err := net.SplitHostPort(authority)
	if err != nil {
		host, p = authority, port
	}
	number, perr := strconv.ParseUint(p, 10, 16)
	target, herr := egress.ParseHost(host)
	if perr != nil || herr != nil || number == 0 {
		n.refuseProxy(c, egress.Event{Host: authority}, egress.Decision{Reason: egress.ReasonNameInvalid}, http.StatusBadRequest)
		return nil, false
	}
	// an address of ours stands for its name, whichever way it comes in
	if target.Name == "" {
		target = n.names.host(target.Addr.Unmap())
		if target.Name == "" {
			target, _ = egress.ParseHost(host)
		}
	}
	fl := n.newFlow(egress.ViaConnect, netip.AddrPort{}, egress.Flow{Host: target, Port: uint16(number), Transport: egress.OverTCP})
	if !fl.d.Allowed() {
		fl.refused()
		fl.done()
		refuseHTTP(c, statusOf(fl.d.Reason), fl.d)
		return nil, false
	}
	return fl, true
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

func (b *buffered) SetReadDeadline(t time.Time) error { return b.inside.SetReadDeadline(t) }
