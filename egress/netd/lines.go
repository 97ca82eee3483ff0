package netd

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// lines lead the packets of connections whose bytes are relayed straight to
// their end points. The layers between would look for options and fragments,
// which a line's packet is seen not to have, and look its addresses up, which
// are the connection's. A packet that is anything more goes their way, and so
// does one that wants to begin a connection.
type lines struct {
	queue queuer

	mu   sync.RWMutex
	ends map[stack.TransportEndpointID]stack.TransportEndpoint
}

// queuer takes a segment for an end point, and has it worked on by another
// goroutine. The stack's TCP is one.
type queuer interface {
	QueuePacket(stack.TransportEndpoint, stack.TransportEndpointID, *stack.PacketBuffer)
}

// open leads packets to an end point until close.
func (l *lines) open(ep tcpip.Endpoint) (close func()) {
	end, ok := ep.(*tcp.Endpoint)
	if !ok || l.queue == nil {
		return func() {}
	}
	id := end.Info().(*stack.TransportEndpointInfo).ID
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends == nil {
		l.ends = map[stack.TransportEndpointID]stack.TransportEndpoint{}
	}
	l.ends[id] = end
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ends[id] == end { // not another one's that has taken the port since
			delete(l.ends, id)
		}
	}
}

// carry takes a packet if it is one of a line's.
func (l *lines) carry(p tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) bool {
	least := header.IPv4MinimumSize
	if p == header.IPv6ProtocolNumber {
		least = header.IPv6MinimumSize
	}
	b, ok := pkt.Data().PullUp(least + header.TCPMinimumSize)
	if !ok {
		return false
	}
	id := stack.TransportEndpointID{}
	size := pkt.Data().Size()
	if p == header.IPv6ProtocolNumber {
		ip := header.IPv6(b)
		if ip.NextHeader() != uint8(header.TCPProtocolNumber) || least+int(ip.PayloadLength()) != size {
			return false
		}
		id.LocalAddress, id.RemoteAddress = ip.DestinationAddress(), ip.SourceAddress()
	} else {
		ip := header.IPv4(b)
		if ip.TransportProtocol() != header.TCPProtocolNumber || int(ip.HeaderLength()) != least || int(ip.TotalLength()) != size || ip.More() || ip.FragmentOffset() != 0 ||
			!pkt.RXChecksumValidated && !ip.IsChecksumValid() {
			return false
		}
		id.LocalAddress, id.RemoteAddress = ip.DestinationAddress(), ip.SourceAddress()
	}
	h := header.TCP(b[least:])
	offset := int(h.DataOffset())
	if offset < header.TCPMinimumSize || offset > size-least || h.Flags().Contains(header.TCPFlagSyn) {
		return false
	}
	id.LocalPort, id.RemotePort = h.DestinationPort(), h.SourcePort()
	l.mu.RLock()
	end := l.ends[id]
	l.mu.RUnlock()
	if end == nil {
		return false
	}
	pkt.NetworkProtocolNumber, pkt.TransportProtocolNumber, pkt.NICID = p, header.TCPProtocolNumber, nic
	_, whole := pkt.NetworkHeader().Consume(least)
	if _, ok := pkt.TransportHeader().Consume(offset); ok && whole {
		l.queue.QueuePacket(end, id, pkt)
	}
	return true
}
