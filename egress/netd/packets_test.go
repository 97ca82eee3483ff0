package netd

import (
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/isolate-run/isolate/egress"
)

// packet is an IPv4 packet of the sandbox's with any protocol in it.
func packet(proto uint8, to netip.Addr, payload []byte) []byte {
	p := make([]byte, header.IPv4MinimumSize+len(payload))
	ip := header.IPv4(p)
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(p)), TTL: 64, Protocol: proto, SrcAddr: tcpip.AddrFrom4(Inside.As4()), DstAddr: tcpip.AddrFrom4(to.As4())})
	ip.SetChecksum(^ip.CalculateChecksum())
	copy(p[header.IPv4MinimumSize:], payload)
	return p
}

// D 50, in every mode: what is neither TCP nor UDP gets no answer and is
// counted, even to the gateway and to names that are allowed.
func TestOtherProtocols(t *testing.T) {
	echoRequest := []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}
	for _, policy := range []egress.Policy{restricted(egress.Rule{Name: "allowed.example"}), {Mode: egress.ModeFull}} {
		b := newBed(t, policy)
		name := netip.MustParseAddr(addressOf(t, b.query("allowed.example", 1)))
		sent := b.network.stack.Stats().IP.PacketsSent.Value()
		for proto, text := range map[uint8]string{1: "icmp", 132: "ip-132", 47: "ip-47", 50: "ip-50"} {
			for _, to := range []netip.Addr{Gateway, name, netip.MustParseAddr("9.9.9.9")} {
				b.inject(packet(proto, to, echoRequest))
			}
			want(t, b, func(e egress.Event) bool {
				return e.Type == egress.EventDeny && e.Reason == egress.ReasonProtoNotAllowed && e.Proto == text && e.Name == "allowed.example"
			})
		}
		if n := b.network.stack.Stats().IP.PacketsSent.Value() - sent; n != 0 {
			t.Errorf("%s: %d packets answer them", policy.Mode, n)
		}
		b.untouched()
	}
}

// want waits for an event.
func want(t *testing.T, b *bed, is func(egress.Event) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, e := range b.log.all() {
			if is(e) {
				return
			}
		}
	}
	t.Errorf("no such event in %+v", b.log.all())
}

// D 38, 39, 46: packets that a program could make only with a stack of its own.
func TestCraftedDestinations(t *testing.T) {
	for _, policy := range []egress.Policy{restricted(egress.Rule{Name: "allowed.example"}), {Mode: egress.ModeFull}} {
		b := newBed(t, policy, func(o *Options) { o.Floor.Host = []netip.Addr{netip.MustParseAddr("8.0.0.1")} })
		for to, class := range map[string]egress.Class{
			"127.0.0.1": egress.ClassLoopback, "169.254.169.254": egress.ClassMetadata, "169.254.170.2": egress.ClassMetadata, "100.100.100.200": egress.ClassMetadata,
			"168.63.129.16": egress.ClassMetadata, "8.0.0.1": egress.ClassHost, "10.0.0.5": egress.ClassPrivate, "0.0.0.0": egress.ClassReserved,
		} {
			at := netip.AddrPortFrom(netip.MustParseAddr(to), 80)
			b.inject(syn(netip.AddrPortFrom(Inside, 4000), at))
			if class == egress.ClassLoopback || class == egress.ClassReserved {
				continue // the stack itself takes none of these; below nothing is touched
			}
			want(t, b, func(e egress.Event) bool {
				return e.Type == egress.EventDeny && e.Reason == egress.ReasonAddrDenied && e.Class == class && e.Dst == at
			})
		}
		b.untouched()
	}
}

// D 49: in mode full UDP goes out, but not to where nothing may.
func TestUDPInFull(t *testing.T) {
	b := newBed(t, egress.Policy{Mode: egress.ModeFull})
	b.world.name("u.example", "9.9.9.9")
	b.world.server("9.9.9.9:443", udpEcho(t))
	at := netip.MustParseAddr(addressOf(t, b.query("u.example", 1)))
	for to, answered := range map[netip.AddrPort]bool{netip.AddrPortFrom(at, 443): true, netip.MustParseAddrPort("9.9.9.9:443"): true, netip.MustParseAddrPort("169.254.169.254:443"): false, netip.MustParseAddrPort("10.0.0.5:443"): false} {
		remote := full(to)
		c, err := gonet.DialUDP(b.client, nil, &remote, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write([]byte("quic"))
		if n, err := c.Read(make([]byte, 8)); (err == nil) != answered {
			t.Errorf("%s: %d bytes, %v", to, n, err)
		}
		c.Close()
	}
	b.event(egress.EventDeny, egress.ReasonAddrDenied)
}

// UDP to groups of hosts goes nowhere in any mode, and is recorded as what else
// is refused: the kernel sends none by itself.
func TestMulticastIsRecorded(t *testing.T) {
	for _, policy := range []egress.Policy{restricted(egress.Rule{Name: "allowed.example"}), {Mode: egress.ModeFull}} {
		b := newBed(t, policy)
		for _, to := range []string{"224.0.0.251:5353", "239.255.255.250:1900", "255.255.255.255:67"} {
			at := netip.MustParseAddrPort(to)
			p := make([]byte, header.UDPMinimumSize)
			udp := header.UDP(p)
			udp.Encode(&header.UDPFields{SrcPort: 4000, DstPort: at.Port(), Length: header.UDPMinimumSize})
			b.inject(packet(uint8(header.UDPProtocolNumber), at.Addr(), p))
			want(t, b, func(e egress.Event) bool {
				return e.Type == egress.EventDeny && e.Class == egress.ClassMulticast && e.Proto == "udp" && e.Dst == at
			})
		}
		b.untouched()
	}
}
