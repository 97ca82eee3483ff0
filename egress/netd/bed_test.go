package netd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
)

// bed is a network with a program's stack on one side and servers on the
// loopback of this machine on the other: no packet leaves the process but to
// those.
type bed struct {
	t       testing.TB
	network *Network
	client  *stack.Stack
	log     *log
	world   *world
}

// log is a Sink that keeps events.
type log struct {
	mu     sync.Mutex
	events []egress.Event
	broken error
	slow   chan struct{} // durable events wait for its end; nil if they need not
}

func (l *log) Note(e egress.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) Durable(e egress.Event) (wait func() error) {
	l.mu.Lock()
	broken, slow := l.broken, l.slow
	l.mu.Unlock()
	if broken == nil {
		l.Note(e)
	}
	return func() error {
		if slow != nil {
			<-slow
		}
		return broken
	}
}

// waits makes durable events wait until the end of what it returns.
func (l *log) waits() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = make(chan struct{})
	return sync.OnceFunc(func() { close(l.slow) })
}

// breaks makes durable events fail.
func (l *log) breaks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.New("disk full")
}

func (l *log) all() []egress.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// world is what names lead to and where the addresses really are.
type world struct {
	mu      sync.Mutex
	names   map[egress.Name][]netip.Addr
	ttl     time.Duration             // of all names
	servers map[netip.AddrPort]string // addresses on loopback
	lookups []egress.Name
	dials   []netip.AddrPort
}

func (w *world) Lookup(_ context.Context, n egress.Name) (Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, n)
	return Answer{w.names[n], w.ttl}, nil
}

func (w *world) Dial(ctx context.Context, network string, to netip.AddrPort, begins func()) (net.Conn, error) {
	begins()
	w.mu.Lock()
	w.dials = append(w.dials, to)
	at, ok := w.servers[to]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("connection refused")
	}
	if at == "black hole" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var d net.Dialer
	return d.DialContext(ctx, network, at)
}

// Loopback has what servers say of 127.0.0.1.
func (w *world) Loopback(ctx context.Context, port uint16) (net.Conn, error) {
	return w.Dial(ctx, "tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), func() {})
}

// name gives a name an address, behind which a server may be.
func (w *world) name(n string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[egress.Name(n)] = nil
	for _, a := range addrs {
		w.names[egress.Name(n)] = append(w.names[egress.Name(n)], netip.MustParseAddr(a))
	}
}

func (w *world) server(at, real string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[netip.MustParseAddrPort(at)] = real
}

// touched tells whether anything was looked up or dialled.
func (w *world) touched() (lookups []egress.Name, dials []netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lookups), slices.Clone(w.dials)
}

func newBed(t testing.TB, p egress.Policy, change ...func(*Options)) *bed {
	t.Helper()
	ours, theirs := pipe.New("", "", MTU)
	b := &bed{t: t, log: &log{}, world: &world{names: map[egress.Name][]netip.Addr{}, servers: map[netip.AddrPort]string{}}}
	o := Options{Link: ours, Upstream: b.world, Sink: b.log}
	for _, c := range change {
		c(&o)
	}
	var err error
	if b.network, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.network.Close)
	b.set(1, p)
	b.client = clientStack(t, theirs)
	return b
}

func (b *bed) set(number uint64, p egress.Policy) {
	b.t.Helper()
	if err := b.network.Set(p, number, time.Now()); err != nil {
		b.t.Fatal(err)
	}
}

// clientStack is the program's kernel.
func clientStack(t testing.TB, link stack.LinkEndpoint) *stack.Stack {
	t.Helper()
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	if err := s.CreateNIC(1, link); err != nil {
		t.Fatal(err)
	}
	if err := s.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(Inside.As4()).WithPrefix()}, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom16(inside6.As16()).WithPrefix()}, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}, {Destination: header.IPv6EmptySubnet, NIC: 1}})
	t.Cleanup(s.Close)
	return s
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// family is what carries packets to an address.
func family(a netip.AddrPort) tcpip.NetworkProtocolNumber {
	if a.Addr().Is6() {
		return ipv6.ProtocolNumber
	}
	return ipv4.ProtocolNumber
}

// dial connects as the program would, by address.
func (b *bed) dial(to string) (*gonet.TCPConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	at := netip.MustParseAddrPort(to)
	return gonet.DialContextTCP(ctx, b.client, full(at), family(at))
}

// reach looks a name up and connects.
func (b *bed) reach(name string, port int) (*gonet.TCPConn, error) {
	b.t.Helper()
	m := b.query(name, dns.TypeA)
	if len(m.Answer) != 1 {
		return nil, fmt.Errorf("lookup of %s: %s", name, dns.RcodeToString[m.Rcode])
	}
	return b.dial(fmt.Sprintf("%s:%d", m.Answer[0].(*dns.A).A, port))
}

func (b *bed) mustReach(name string, port int) *gonet.TCPConn {
	b.t.Helper()
	c, err := b.reach(name, port)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// query asks the resolver.
func (b *bed) query(name string, kind uint16) *dns.Msg {
	b.t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	q.SetEdns0(1232, false)
	raw, err := q.Pack()
	if err != nil {
		b.t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b.rawQuery("198.18.0.1:53", raw)); err != nil {
		b.t.Fatal(err)
	}
	return m
}

func (b *bed) rawQuery(to string, raw []byte) []byte {
	b.t.Helper()
	at := netip.MustParseAddrPort(to)
	remote := full(at)
	c, err := gonet.DialUDP(b.client, nil, &remote, family(at))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(raw); err != nil {
		b.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		b.t.Fatalf("no answer to a query: %v", err)
	}
	return buf[:n]
}

// event waits for an event of a kind with a reason.
func (b *bed) event(kind string, reason egress.Reason) egress.Event {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, e := range b.log.all() {
			if e.Type == kind && e.Reason == reason {
				return e
			}
		}
	}
	all := b.log.all()
	b.t.Errorf("no event %s/%s among %d, the last of which are %+v", kind, reason, len(all), all[max(0, len(all)-20):])
	return egress.Event{}
}

// untouched checks that nothing was looked up or dialled upstream.
func (b *bed) untouched() {
	b.t.Helper()
	if l, d := b.world.touched(); len(l)+len(d) > 0 {
		b.t.Errorf("upstream was touched: looked up %v, dialled %v", l, d)
	}
}

// listen serves each connection on loopback.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				serve(c)
			})
		}
	})
	return l.Addr().String()
}

// echo sends back what it reads, then ends.
func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// certificate is one for names, signed by itself.
func certificate(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func restricted(r ...egress.Rule) egress.Policy {
	return egress.Policy{Mode: egress.ModeRestricted, Rules: r}
}

var _ Sink = (*control.Peer)(nil)

var _ Upstream = (*world)(nil)
