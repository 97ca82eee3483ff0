package netd

import (
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/isolate-run/isolate/egress/control"
)

// mourn ends connections of a process that died. Their sequence numbers died
// with it, so each is sent a segment that belongs nowhere: the kernel answers it
// with what it expects, and the stack, which knows no such connection, answers
// that with a reset that fits (RFC 9293, 3.5.2).
func mourn(device int, list []control.Connection) {
	for _, c := range list {
		if c.Local.Addr().Is4() == c.Remote.Addr().Is4() {
			_, _ = unix.Write(device, stray(c)) // what is lost is silent as before
		}
	}
}

// stray is an acknowledgement of nothing, from the far end of a connection, as
// the device takes it.
func stray(c control.Connection) []byte {
	head := header.IPv4MinimumSize
	if c.Local.Addr().Is6() {
		head = header.IPv6MinimumSize
	}
	whole := make([]byte, virtioHeader+head+header.TCPMinimumSize)
	b := whole[virtioHeader:]
	src, dst := tcpip.AddrFromSlice(c.Remote.Addr().AsSlice()), tcpip.AddrFromSlice(c.Local.Addr().AsSlice())
	if c.Local.Addr().Is6() {
		header.IPv6(b).Encode(&header.IPv6Fields{PayloadLength: header.TCPMinimumSize, HopLimit: 64, TransportProtocol: header.TCPProtocolNumber, SrcAddr: src, DstAddr: dst})
	} else {
		ip := header.IPv4(b)
		ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 64, Protocol: uint8(header.TCPProtocolNumber), SrcAddr: src, DstAddr: dst})
		ip.SetChecksum(^ip.CalculateChecksum())
	}
	t := header.TCP(b[head:])
	t.Encode(&header.TCPFields{SrcPort: c.Remote.Port(), DstPort: c.Local.Port(), SeqNum: 1, AckNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagAck, WindowSize: 1})
	t.SetChecksum(^checksum.Checksum(t, header.PseudoHeaderChecksum(header.TCPProtocolNumber, src, dst, header.TCPMinimumSize)))
	return whole
}
