package netd

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// late keeps back the acknowledgement of a question, because the answer carries
// it: a packet less for each round trip, of the five or six that the stack and
// the sandbox's kernel would have for each other. It is sent, at the latest,
// with the next packet in either direction, or when the loop has waited for
// pauseFor. One is kept at a time.
type late struct {
	mu       sync.Mutex
	expected bool
	pkt      *stack.PacketBuffer
}

// expect says that the next acknowledgement is that of a question.
func (a *late) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expected = true
}

// keep keeps a packet back if it is what is expected.
func (a *late) keep(pkt *stack.PacketBuffer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.expected || a.pkt != nil || !acknowledges(pkt) {
		return false
	}
	a.expected, a.pkt = false, pkt.IncRef()
	return true
}

// take returns what is kept, for the caller to send and to release; nil if
// there is nothing. Nothing is expected any more.
func (a *late) take() *stack.PacketBuffer {
	a.mu.Lock()
	defer a.mu.Unlock()
	pkt := a.pkt
	a.expected, a.pkt = false, nil
	return pkt
}

// asks tells whether an IPv4 packet is the end of what a program had to say, so
// that an answer may come: TCP with bytes in it, pushed.
func asks(b []byte) bool {
	if len(b) < header.IPv4MinimumSize || header.IPVersion(b) != header.IPv4Version {
		return false
	}
	ip := header.IPv4(b)
	at := int(ip.HeaderLength())
	if ip.TransportProtocol() != header.TCPProtocolNumber || at < header.IPv4MinimumSize || len(b) < at+header.TCPMinimumSize {
		return false
	}
	tcp := header.TCP(b[at:])
	return tcp.Flags().Contains(header.TCPFlagPsh) && len(b) > at+int(tcp.DataOffset())
}

// acknowledges tells whether a packet does nothing else.
func acknowledges(pkt *stack.PacketBuffer) bool {
	h, ok := tcpOf(pkt)
	return ok && pkt.Data().Size() == 0 && h.Flags() == header.TCPFlagAck
}

// carries tells whether a packet says what an acknowledgement before it did: one
// of the same connection, which the stack numbers in order.
func carries(pkt, before *stack.PacketBuffer) bool {
	h, ok := tcpOf(pkt)
	was, _ := tcpOf(before)
	return ok && h.Flags().Contains(header.TCPFlagAck) && h.SourcePort() == was.SourcePort() && h.DestinationPort() == was.DestinationPort() &&
		pkt.Network().SourceAddress() == before.Network().SourceAddress() && pkt.Network().DestinationAddress() == before.Network().DestinationAddress()
}

// tcpOf is the TCP header of a packet that the stack made.
func tcpOf(pkt *stack.PacketBuffer) (header.TCP, bool) {
	b := pkt.TransportHeader().Slice()
	return b, pkt.TransportProtocolNumber == header.TCPProtocolNumber && len(b) >= header.TCPMinimumSize
}
