package netd

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/isolate-run/isolate/egress"
)

// inject puts a packet on the wire as if a program's kernel had sent it.
func (b *bed) inject(raw []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(raw)})
	defer pkt.DecRef()
	b.network.gate.DeliverNetworkPacket(ipv4.ProtocolNumber, pkt)
}

func syn(from, to netip.AddrPort) []byte {
	const size = header.IPv4MinimumSize + header.TCPMinimumSize
	p := make([]byte, size)
	src, dst := tcpip.AddrFrom4(from.Addr().As4()), tcpip.AddrFrom4(to.Addr().As4())
	ip := header.IPv4(p)
	ip.Encode(&header.IPv4Fields{TotalLength: size, TTL: 64, Protocol: uint8(header.TCPProtocolNumber), SrcAddr: src, DstAddr: dst})
	ip.SetChecksum(^ip.CalculateChecksum())
	t := header.TCP(p[header.IPv4MinimumSize:])
	t.Encode(&header.TCPFields{SrcPort: from.Port(), DstPort: to.Port(), SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
	t.SetChecksum(^checksum.Checksum(t, header.PseudoHeaderChecksum(header.TCPProtocolNumber, src, dst, header.TCPMinimumSize)))
	return p
}

// D 67: many SYNs, spoofed and not: memory stays bounded, nothing is opened, and
// what is denied is counted exactly.
func TestSYNFlood(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const spoofed, own = 20000, 5000
	to := netip.MustParseAddrPort("9.9.9.9:443")
	for i := range spoofed {
		b.inject(syn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 1000), to))
	}
	for i := range own {
		b.inject(syn(netip.AddrPortFrom(Inside, uint16(2000+i)), to))
		if i%200 == 0 {
			time.Sleep(time.Millisecond) // more at once are dropped by the stack
		}
	}
	count := func() (n uint64) {
		for _, e := range b.log.all() {
			if e.Type == egress.EventDeny {
				n++
			}
			if e.Type == egress.EventFlood {
				n += e.Count
			}
		}
		return n + b.network.stack.Stats().TCP.ForwardMaxInFlightDrop.Value()
	}
	for deadline := time.Now().Add(20 * time.Second); count() < own && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
	}
	if n := count(); n != own {
		t.Errorf("%d attempts counted, want %d", n, own)
	}
	if n := len(b.log.all()); n > 1000 {
		t.Errorf("%d events for a flood", n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB more in use", grown>>20)
	}
	b.untouched()
}

// D 66: SYN and RST a thousand times, then an ordinary flow.
func TestNoLeakOfHalfOpenFlows(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example"), egress.Rule{Name: "t.example"}))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	m := b.query("t.example", 1)
	fields := strings.Fields(m.Answer[0].String())
	at := netip.MustParseAddr(fields[len(fields)-1])
	for i := range 900 { // the burst that is allowed
		b.inject(syn(netip.AddrPortFrom(Inside, uint16(20000+i)), netip.AddrPortFrom(at, 443)))
	}
	c := b.mustReach("a.example", 7)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// A program that asks from very many sockets is answered on some.
func TestManyResolverSockets(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	q := dnsQuery(t, "allowed.example.")
	remote := full(netip.MustParseAddrPort("198.18.0.1:53"))
	const free = 20
	for range maxAsking - free { // others are asking
		b.network.asking <- struct{}{}
	}
	for range free + 200 {
		c, err := gonet.DialUDP(b.client, nil, &remote, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write(q); err != nil {
			break // told that there is nobody
		}
	}
	b.event(egress.EventDeny, egress.ReasonLimitFlows)
	if n := len(b.network.asking); n > maxAsking {
		t.Errorf("%d sockets", n)
	}
	for range maxAsking - free {
		<-b.network.asking
	}
	for deadline := time.Now().Add(20 * time.Second); len(b.network.asking) > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
	}
	if m := b.query("allowed.example", 1); len(m.Answer) != 1 {
		t.Error("afterwards nobody is answered")
	}
}

// Many flows at once, all cut by one change of the policy.
func TestManyFlows(t *testing.T) {
	const flows = 500
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	var wg sync.WaitGroup
	conns := make([]net.Conn, flows)
	at := b.mustReach("a.example", 7).RemoteAddr().String()
	for i := range flows {
		wg.Go(func() {
			c, err := b.dial(at)
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	began := time.Now()
	b.set(2, restricted())
	for _, c := range conns {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a flow goes on")
		}
		c.Close()
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("cutting %d flows took %s", flows, took)
	}
	for deadline := time.Now().Add(20 * time.Second); b.network.judge.Living() != 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
	}
	if n := b.network.judge.Living(); n != 0 {
		t.Errorf("%d flows live", n)
	}
}

// D 74: two sandboxes have the same address for different names, and
// authorities of their own.
func TestTwoNetworks(t *testing.T) {
	one, two := newBed(t, restricted(tcpRule("a.example"))), newBed(t, restricted(tcpRule("b.example")))
	a, c := one.query("a.example", 1).Answer[0].String(), two.query("b.example", 1).Answer[0].String()
	if strings.Fields(a)[4] != strings.Fields(c)[4] {
		t.Errorf("%s and %s: the test means equal addresses", a, c)
	}
	two.world.name("b.example", "9.9.9.9")
	two.world.server("9.9.9.9:7", listen(t, func(c net.Conn) { fmt.Fprint(c, "two") }))
	conn := two.mustReach("b.example", 7)
	buf := make([]byte, 3)
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Read(buf); err != nil || string(buf) != "two" {
		t.Errorf("got %q, %v", buf, err)
	}
	one.untouched()
	x, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	y, err := NewAuthority()
	if err != nil || x.PEM() == y.PEM() {
		t.Error("two authorities are one")
	}
}

func BenchmarkAnswer(b *testing.B) {
	bed := newBed(b, restricted(egress.Rule{Name: "allowed.example"}), func(o *Options) { o.Sink = nowhere{} })
	q := dnsQuery(b, "allowed.example.")
	for b.Loop() {
		bed.network.answer(q, netip.AddrPortFrom(Gateway, 53))
	}
}

type nowhere struct{}

func (nowhere) Durable(egress.Event) (wait func() error) { return func() error { return nil } }
func (nowhere) Note(egress.Event)                        {}

func BenchmarkLeaf(b *testing.B) {
	a, err := NewAuthority()
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i++
		if _, err := a.leaf(egress.Name(fmt.Sprintf("n%d.example", i))); err != nil {
			b.Fatal(err)
		}
	}
}
