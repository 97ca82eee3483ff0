package netd

import (
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// queued is a queuer that counts, and looks at what it gets.
type queued struct {
	t *testing.T
	n int
}

func (q *queued) QueuePacket(_ stack.TransportEndpoint, id stack.TransportEndpointID, pkt *stack.PacketBuffer) {
	q.n++
	if h := header.TCP(pkt.TransportHeader().Slice()); h.SourcePort() != id.RemotePort || pkt.Network().DestinationAddress() != id.LocalAddress || string(pkt.Data().AsRange().ToSlice()) != "hello" {
		q.t.Errorf("a segment from port %d with %q", h.SourcePort(), pkt.Data().AsRange().ToSlice())
	}
}

// What a line takes is the plain next packet of its own connection; everything
// else is for the stack, untouched.
func TestLinesTakePlainPacketsOnly(t *testing.T) {
	for _, v := range []struct {
		p             tcpip.NetworkProtocolNumber
		from, to, not string
	}{{header.IPv4ProtocolNumber, Inside.String(), "9.9.9.9", "9.9.9.8"}, {header.IPv6ProtocolNumber, inside6.String(), "2620:fe::9", "2620:fe::8"}} {
		at := 20
		if v.p == header.IPv6ProtocolNumber {
			at = 40
		}
		segment := func(from, to string) []byte {
			b := make([]byte, at+header.TCPMinimumSize+5)
			src, dst := netip.MustParseAddr(from), netip.MustParseAddr(to)
			if at == 20 {
				header.IPv4(b).Encode(&header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 64, Protocol: 6, SrcAddr: tcpip.AddrFrom4(src.As4()), DstAddr: tcpip.AddrFrom4(dst.As4())})
			} else {
				header.IPv6(b).Encode(&header.IPv6Fields{PayloadLength: uint16(len(b) - at), TransportProtocol: 6, HopLimit: 64, SrcAddr: tcpip.AddrFrom16(src.As16()), DstAddr: tcpip.AddrFrom16(dst.As16())})
			}
			header.TCP(b[at:]).Encode(&header.TCPFields{SrcPort: 4000, DstPort: 7, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagAck | header.TCPFlagPsh, WindowSize: 1000})
			copy(b[at+header.TCPMinimumSize:], "hello")
			return b
		}
		plain := segment(v.from, v.to)
		changed := func(f func(b []byte) []byte) []byte { return f(segment(v.from, v.to)) }
		id := stack.TransportEndpointID{LocalPort: 7, LocalAddress: header.IPv4(plain).DestinationAddress(), RemotePort: 4000, RemoteAddress: header.IPv4(plain).SourceAddress()}
		if at == 40 {
			id.LocalAddress, id.RemoteAddress = header.IPv6(plain).DestinationAddress(), header.IPv6(plain).SourceAddress()
		}
		q := &queued{t: t}
		l := &lines{queue: q, ends: map[stack.TransportEndpointID]stack.TransportEndpoint{id: new(tcp.Endpoint)}}
		carried := func(b []byte, checked bool) bool {
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
			defer pkt.DecRef()
			pkt.RXChecksumValidated = checked
			before := q.n
			took := l.carry(v.p, pkt)
			if took != (q.n > before) || !took && (pkt.Data().Size() != len(b) || len(pkt.NetworkHeader().Slice()) > 0) {
				t.Errorf("taken is %v, queued %d, %d of %d bytes left", took, q.n-before, pkt.Data().Size(), len(b))
			}
			return took
		}
		if !carried(plain, true) {
			t.Errorf("%d: the plain packet is not taken", at)
		}
		others := map[string][]byte{
			"another's address":   segment(v.from, v.not),
			"another's port":      changed(func(b []byte) []byte { b[at+1]++; return b }),
			"another source":      segment(v.not, v.to),
			"more than it says":   append(segment(v.from, v.to), 0),
			"less than it says":   plain[:len(plain)-1],
			"no room for TCP":     plain[:at+header.TCPMinimumSize-1],
			"nothing":             {},
			"another protocol":    changed(func(b []byte) []byte { b[map[int]int{20: 9, 40: 6}[at]] = 17; return b }),
			"a new connection":    changed(func(b []byte) []byte { b[at+13] = 2; return b }),
			"a header too short":  changed(func(b []byte) []byte { b[at+12] = 4 << 4; return b }),
			"a header too long":   changed(func(b []byte) []byte { b[at+12] = 15 << 4; return b }),
			"a header of nothing": changed(func(b []byte) []byte { b[at+12] = 0; return b }),
		}
		if at == 20 {
			others["a fragment"] = changed(func(b []byte) []byte { b[6] |= 0x20; return b })
			others["a later fragment"] = changed(func(b []byte) []byte { b[7] = 1; return b })
			others["options"] = changed(func(b []byte) []byte { b[0] = 0x46; return b })
			if carried(plain, false) {
				t.Error("a header without its checksum is taken")
			}
		}
		for name, b := range others {
			if carried(b, true) {
				t.Errorf("%d: %s is taken", at, name)
			}
		}
	}
}
