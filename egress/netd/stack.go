package netd

import (
	"errors"
	"fmt"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/isolate-run/isolate/egress"
)

// MTU of the device, in bytes: the most that IPv4 carries in whole units of 16
// bytes. One system call moves one packet.
const MTU = 65520

const nic = 1

// Buffers of one connection, in bytes: what it has from the start, and what it
// may grow to. A sandbox may have 1024 connections.
const (
	bufferStart = 256 << 10
	bufferMost  = 1 << 20
)

// maxInFlight is how many connections may be on their way to be accepted.
const maxInFlight = 1024

// newStack makes a stack that answers for every address there is.
func (n *Network) newStack(link stack.LinkEndpoint) error {
	o := stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	}
	addresses := []tcpip.ProtocolAddress{{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(Gateway.As4()).WithPrefix()}}
	routes := []tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}}
	if n.options.IPv6 {
		// the zero options: no advertisement of a router is heeded, and nothing is
		// asked of neighbours, of which there are none
		o.NetworkProtocols = append(o.NetworkProtocols, ipv6.NewProtocolWithOptions(ipv6.Options{}))
		o.TransportProtocols = append(o.TransportProtocols, icmp.NewProtocol6)
		addresses = append(addresses, tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom16(gateway6.As16()).WithPrefix()})
		routes = append(routes, tcpip.Route{Destination: header.IPv6EmptySubnet, NIC: nic})
	}
	s := stack.New(o)
	n.stack = s
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	sack := tcpip.TCPSACKEnabled(true)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: bufferStart, Max: bufferMost},
		&tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: bufferStart, Max: bufferMost},
		&moderate, &sack,
	} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("cannot set up the stack: %s", err)
		}
	}
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, 0, maxInFlight, n.tcp).HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, n.udp).HandlePacket)
	n.gate = newGate(link, n.foreign)
	n.gate.lines.queue, _ = s.TransportProtocolInstance(tcp.ProtocolNumber).(queuer)
	if err := s.CreateNIC(nic, n.gate); err != nil {
		return fmt.Errorf("cannot set up the stack: %s", err)
	}
	err := errors.Join(toError(s.SetPromiscuousMode(nic, true)), toError(s.SetSpoofing(nic, true)))
	for _, a := range addresses {
		err = errors.Join(err, toError(s.AddProtocolAddress(nic, a, stack.AddressProperties{})))
	}
	if err != nil {
		return fmt.Errorf("cannot set up the stack: %w", err)
	}
	s.SetRouteTable(routes)
	return nil
}

func toError(e tcpip.Error) error {
	if e == nil {
		return nil
	}
	return errors.New(e.String())
}

// gate lets packets of the sandbox's own addresses to the stack: IP with TCP or
// UDP in it, and nothing between. Everything else is counted and goes nowhere.
type gate struct {
	nested.Endpoint
	foreign func(dst netip.AddrPort, proto string)
	lines   lines
}

func newGate(link stack.LinkEndpoint, foreign func(netip.AddrPort, string)) *gate {
	g := &gate{foreign: foreign}
	g.Init(link, g)
	return g
}

// DeliverNetworkPacket is where packets from the device come in. Those of IPv6
// that the kernel sends by itself, to nobody, have another source; a stack
// without IPv6 takes none.
func (g *gate) DeliverNetworkPacket(p tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	if g.lines.carry(p, pkt) {
		return
	}
	least, own := header.IPv4MinimumSize, tcpip.AddrFrom4(Inside.As4())
	if p == ipv6.ProtocolNumber {
		least, own = header.IPv6MinimumSize, tcpip.AddrFrom16(inside6.As16())
	}
	b, ok := pkt.Data().PullUp(least)
	if !ok {
		return
	}
	h := header.Network(header.IPv4(b))
	if p == ipv6.ProtocolNumber {
		h = header.IPv6(b)
	}
	if h.SourceAddress() != own {
		return
	}
	to := addrPort(h.DestinationAddress(), 0)
	switch proto := h.TransportProtocol(); proto {
	case header.UDPProtocolNumber:
		if to.Addr().IsMulticast() { // the stack is in no group, and drops it unseen
			if v4, ok := h.(header.IPv4); ok {
				least = max(least, int(v4.HeaderLength()))
			}
			g.foreign(netip.AddrPortFrom(to.Addr(), udpPort(pkt, least)), "udp")
			return
		}
		g.Endpoint.DeliverNetworkPacket(p, pkt)
	case header.TCPProtocolNumber:
		g.Endpoint.DeliverNetworkPacket(p, pkt)
	default:
		name := "ip-" + fmt.Sprint(uint8(proto))
		if proto == header.ICMPv4ProtocolNumber || proto == header.ICMPv6ProtocolNumber {
			name = "icmp"
		}
		g.foreign(to, name)
	}
}

// udpPort is where a datagram behind an IP header of that size goes; 0 in a
// later fragment of one, which does not say.
func udpPort(pkt *stack.PacketBuffer, ip int) uint16 {
	b, ok := pkt.Data().PullUp(ip + header.UDPMinimumSize)
	if !ok || header.IPVersion(b) == header.IPv4Version && header.IPv4(b).FragmentOffset() != 0 {
		return 0
	}
	return header.UDP(b[ip:]).DestinationPort()
}

// foreign notes a packet that the stack is not given: one that is neither TCP
// nor UDP, or UDP to a group.
func (n *Network) foreign(dst netip.AddrPort, proto string) {
	f := n.destination(dst.Addr(), egress.AnyPort, egress.OverOther)
	switch {
	case proto == "udp":
		f = n.destination(dst.Addr(), dst.Port(), egress.OverUDP)
	case dst.Addr().IsMulticast():
		return // the kernel announces itself
	}
	d, gen := n.judge.Decide(f)
	n.events.deny(egress.Event{Type: egress.EventDeny, Gen: gen, Via: egress.ViaTUN, Proto: proto, Dst: dst, Port: dst.Port(), Name: string(d.Host.Name), Reason: d.Reason, Class: d.Class})
}

func addrPort(a tcpip.Address, port uint16) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(a.AsSlice())
	return netip.AddrPortFrom(ip, port)
}
