package netd

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/isolate-run/isolate/egress"
)

func newBed6(t testing.TB, p egress.Policy) *bed {
	p.IPv6 = true
	return newBed(t, p, func(o *Options) { o.IPv6 = true })
}

// A name has one address of each kind, which are the same name.
func TestIPv6(t *testing.T) {
	b := newBed6(t, restricted(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}}, egress.Rule{CIDR: "2620:fe::/48", Protocol: egress.TCP, Ports: []int{7}},
		egress.Rule{CIDR: "fd00:1::/32", Protocol: egress.TCP, Ports: []int{7}}))
	b.world.name("a.example", "9.9.9.9", "2620:fe::9")
	echoes := listen(t, echo)
	for _, at := range []string{"9.9.9.9:7", "[2620:fe::fe]:7", "[fd00:1::1]:7"} {
		b.world.server(at, echoes)
	}
	a, aaaa := b.query("a.example", dns.TypeA), b.query("a.example", dns.TypeAAAA)
	v4, v6 := addressOf(t, a), answers(aaaa)[0]
	if got, ok := egress.FromIPv6(netip.MustParseAddr(v6)); !ok || got.String() != v4 {
		t.Fatalf("got %s and %s", v4, v6)
	}
	reverse, _ := dns.ReverseAddr(v6)
	if m := b.query(reverse, dns.TypePTR); len(m.Answer) != 1 || m.Answer[0].(*dns.PTR).Ptr != "a.example." {
		t.Errorf("%s: %v", reverse, m)
	}
	for _, to := range []string{"[" + v6 + "]:7", "[2620:fe::fe]:7", "[fd00:1::1]:7"} {
		c, err := b.dial(to)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		buf := make([]byte, 2)
		_, _ = io.WriteString(c, "hi")
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hi" {
			t.Errorf("%s: got %q, %v", to, buf, err)
		}
		c.Close()
	}
	q := dnsQuery(t, "evil.example.")
	m := new(dns.Msg)
	if err := m.Unpack(b.rawQuery("[2620:fe::fe]:53", q)); err != nil || m.Rcode != dns.RcodeNameError {
		t.Errorf("another resolver: %v, %v", m, err)
	}
	if c, err := b.dial("[2001:2::c612:1]:3128"); err != nil {
		t.Errorf("the proxy: %v", err)
	} else {
		c.Close()
	}
}

// Without IPv6 names have none, and no packet of it is taken.
func TestIPv6IsOff(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "a.example"}))
	if m := b.query("a.example", dns.TypeAAAA); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 {
		t.Errorf("got %v", m)
	}
	n := len(b.log.all())
	remote := full(netip.MustParseAddrPort("[2620:fe::fe]:443"))
	c, err := gonet.DialUDP(b.client, nil, &remote, ipv6.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("x"))
	b.query("a.example", dns.TypeA) // behind it
	for _, e := range b.log.all()[n:] {
		if e.Type == egress.EventDeny {
			t.Errorf("got %+v", e)
		}
	}
}

// D 39: classes of IPv6, and IPv4 in it, are denied however they come, in every
// mode; a deny of IPv4 is one of what leads there.
func TestIPv6Denials(t *testing.T) {
	for _, p := range []egress.Policy{restricted(egress.Rule{Name: "a.example"}), {Mode: egress.ModeFull}} {
		p.Deny = []egress.Deny{{CIDR: "9.9.9.0/24"}, {CIDR: "2620:fe::/48"}}
		b := newBed6(t, p)
		for to, want := range map[string]egress.Reason{
			"fe80::1": egress.ReasonAddrDenied, "fec0::1": egress.ReasonAddrDenied, "fd00:ec2::254": egress.ReasonAddrDenied, "fd20:ce::254": egress.ReasonAddrDenied,
			"fd00::1": egress.ReasonAddrDenied, "2001:db8::1": egress.ReasonAddrDenied, "100::1": egress.ReasonAddrDenied, "64:ff9b::a9fe:a9fe": egress.ReasonAddrDenied,
			"64:ff9b:1::1": egress.ReasonAddrDenied, "2002:a9fe:a9fe::": egress.ReasonAddrDenied, "2001::1": egress.ReasonAddrDenied, "2001:4860::5efe:a00:1": egress.ReasonAddrDenied,
			"::7f00:1": egress.ReasonAddrDenied, "2001:2::c612:ff": egress.ReasonUnmappedAddr, "2001:2::1": egress.ReasonUnmappedAddr,
			"64:ff9b::909:909": egress.ReasonDeniedByRule, "2002:909:909::": egress.ReasonDeniedByRule, "2620:fe::1": egress.ReasonDeniedByRule,
		} {
			n := len(b.log.all())
			c, err := b.dial("[" + to + "]:443")
			if err == nil {
				c.Close()
				t.Errorf("%s: %s was accepted", p.Mode, to)
			}
			if got := b.last(n); got.reason != want {
				t.Errorf("%s: %s: got %+v, want %s", p.Mode, to, got, want)
			}
			n = len(b.log.all())
			if c, err := b.connect(to, 443); err == nil {
				c.Close()
				t.Errorf("%s: %s was accepted by the proxy", p.Mode, to)
			}
			if got := b.last(n); got.reason != want {
				t.Errorf("%s: %s by the proxy: got %+v, want %s", p.Mode, to, got, want)
			}
		}
		n := len(b.log.all())
		if c, err := b.connect("::ffff:9.9.9.9", 443); err == nil { // no socket sends this
			c.Close()
			t.Errorf("%s: a denied address was reached in another form", p.Mode)
		}
		if got := b.last(n); got.reason != egress.ReasonDeniedByRule {
			t.Errorf("%s: got %+v", p.Mode, got)
		}
		b.untouched()
		b.network.Close()
	}
}

// Real addresses of both kinds, where both are spoken inside.
func TestRealAddressesOfIPv6(t *testing.T) {
	b := newBed6(t, real(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}}, egress.Rule{Name: "six.example"}))
	b.world.name("a.example", "9.9.9.9", "2620:fe::9")
	b.world.name("six.example", "2620:fe::6")
	b.world.server("[2620:fe::9]:7", listen(t, echo))
	if v4, v6 := answers(b.query("a.example", dns.TypeA)), answers(b.query("a.example", dns.TypeAAAA)); strings.Join(append(v4, v6...), " ") != "9.9.9.9 2620:fe::9" {
		t.Errorf("got %v, %v", v4, v6)
	}
	if v4, v6 := answers(b.query("six.example", dns.TypeA)), answers(b.query("six.example", dns.TypeAAAA)); len(v4) != 0 || strings.Join(v6, " ") != "2620:fe::6" {
		t.Errorf("got %v, %v", v4, v6)
	}
	c, err := b.dial("[2620:fe::9]:7")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if e := b.event(egress.EventOpen, ""); e.Name != "a.example" || e.Dial.String() != "[2620:fe::9]:7" {
		t.Errorf("got %+v", e)
	}
}

// D 49, 50: datagrams are refused at once; anything that is neither TCP nor UDP,
// or hides behind another header, is counted and goes nowhere.
func TestIPv6Packets(t *testing.T) {
	b := newBed6(t, restricted(egress.Rule{Name: "a.example"}))
	remote := full(netip.MustParseAddrPort("[2620:fe::fe]:443"))
	c, err := gonet.DialUDP(b.client, nil, &remote, ipv6.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write([]byte("quic"))
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("no answer that says no: %v", err)
	}
	b.event(egress.EventDeny, egress.ReasonIPLiteral)
	to := netip.MustParseAddr("2620:fe::fe")
	for proto, name := range map[uint8]string{58: "icmp", 43: "ip-43", 44: "ip-44", 60: "ip-60", 132: "ip-132", 4: "ip-4"} {
		b.inject6(proto, inside6, to)
		want(t, b, func(e egress.Event) bool { return e.Proto == name && e.Dst.Addr() == to })
	}
	n := len(b.log.all())
	for _, from := range []string{"::", "fe80::2", "2001:2::c612:3", "::1"} { // not the sandbox's
		b.inject6(58, netip.MustParseAddr(from), to)
		b.inject6(6, netip.MustParseAddr(from), to)
	}
	b.inject6(58, inside6, netip.MustParseAddr("ff02::2")) // the kernel looks for routers
	b.query("a.example", dns.TypeA)
	for _, e := range b.log.all()[n:] {
		if e.Type == egress.EventDeny {
			t.Errorf("got %+v", e)
		}
	}
	b.untouched()
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// inject6 sends a packet of a protocol with an empty body of 40 bytes.
func (b *bed) inject6(proto uint8, from, to netip.Addr) {
	raw := make([]byte, header.IPv6MinimumSize+40)
	header.IPv6(raw).Encode(&header.IPv6Fields{PayloadLength: 40, HopLimit: 64, TransportProtocol: tcpip.TransportProtocolNumber(proto), SrcAddr: tcpip.AddrFrom16(from.As16()), DstAddr: tcpip.AddrFrom16(to.As16())})
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(raw)})
	defer pkt.DecRef()
	b.network.gate.DeliverNetworkPacket(ipv6.ProtocolNumber, pkt)
}

// The kernel drops a datagram over IPv6 without a checksum, so it is left to it
// as that of TCP is.
func TestChecksumOfDatagramsOverIPv6(t *testing.T) {
	for proto, offset := range map[tcpip.TransportProtocolNumber]int{header.UDPProtocolNumber: udpChecksumOffset, header.TCPProtocolNumber: header.TCPChecksumOffset} {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{ReserveHeaderBytes: 128, Payload: buffer.MakeWithData([]byte("data"))})
		pkt.TransportProtocolNumber, pkt.NetworkProtocolNumber = proto, ipv6.ProtocolNumber
		pkt.TransportHeader().Push(header.TCPMinimumSize)
		ip := header.IPv6(pkt.NetworkHeader().Push(header.IPv6MinimumSize))
		ip.Encode(&header.IPv6Fields{PayloadLength: 24, HopLimit: 1, TransportProtocol: proto, SrcAddr: tcpip.AddrFrom16(gateway6.As16()), DstAddr: tcpip.AddrFrom16(inside6.As16())})
		var virtio [virtioHeader]byte
		leaveChecksum(pkt, &virtio)
		sum := binary.BigEndian.Uint16(pkt.TransportHeader().Slice()[offset:])
		if virtio[0] == 0 || sum == 0 || binary.NativeEndian.Uint16(virtio[virtioStart:]) != header.IPv6MinimumSize || int(binary.NativeEndian.Uint16(virtio[virtioOffset:])) != offset {
			t.Errorf("protocol %d: header %x, sum %x", proto, virtio, sum)
		}
		pkt.DecRef()
	}
}
