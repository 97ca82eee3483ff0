package netd

import (
	"context"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/isolate-run/isolate/egress"
)

// udpIdle is how long a UDP flow lives without a datagram (RFC 4787 asks for
// two minutes; resolvers and games, which use it, for less).
const udpIdle = 2 * time.Minute

// udp takes the first datagram of a flow. False makes the stack answer with
// ICMP port unreachable, so that QUIC falls back to TCP at once.
func (n *Network) udp(r *udp.ForwarderRequest) bool {
	id := r.ID()
	dst := addrPort(id.LocalAddress, id.LocalPort)
	if dst.Port() == dnsPort {
		leave, ok := admit(n.asking)
		if !ok {
			n.events.deny(egress.Event{Type: egress.EventDeny, Via: egress.ViaTUN, Proto: "udp", Dst: dst, Port: dst.Port(), Reason: egress.ReasonLimitFlows})
			return false
		}
		c, ok := datagrams(r)
		if !ok {
			leave()
			return false
		}
		n.work.Go(func() {
			defer leave()
			n.dnsOverUDP(c, dst)
		})
		return true
	}
	fl := n.newFlow(egress.ViaTUN, dst, n.destination(dst.Addr(), dst.Port(), egress.OverUDP))
	if !fl.d.Allowed() {
		fl.refused()
		fl.done()
		return false
	}
	c, ok := datagrams(r)
	if !ok {
		fl.done()
		return false
	}
	n.work.Go(func() {
		defer fl.done()
		defer c.Close()
		fl.relay(c)
	})
	return true
}

func datagrams(r *udp.ForwarderRequest) (net.Conn, bool) {
	var wq waiter.Queue
	ep, err := r.CreateEndpoint(&wq)
	if err != nil {
		return nil, false
	}
	return gonet.NewUDPConn(&wq, ep), true
}

// relay carries datagrams both ways.
func (fl *flow) relay(c net.Conn) {
	up, err := fl.connect(fl.network.ctx, "udp")
	if err != nil {
		fl.refused()
		return
	}
	defer up.Close()
	fl.onCut(func() { c.Close() })
	stop := context.AfterFunc(fl.network.ctx, func() { c.Close(); up.Close() })
	defer stop()
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer c.Close()
		relayOne(c, up)
	}()
	relayOne(up, c)
	up.Close()
	<-back
}

func relayOne(to, from net.Conn) {
	b := bufferPool.Get().(*[]byte)
	defer bufferPool.Put(b)
	for {
		_ = from.SetReadDeadline(time.Now().Add(udpIdle))
		n, err := from.Read(*b)
		if err != nil {
			return
		}
		if _, err := to.Write((*b)[:n]); err != nil {
			return
		}
	}
}
