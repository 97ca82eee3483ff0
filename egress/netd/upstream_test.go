package netd

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/internal/testenv"
)

// An address of this machine is found when it is dialled, whatever the floor
// said at the start, and nothing reaches it.
func TestDialOwnAddress(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	to := netip.MustParseAddrPort(tcp.Addr().String())
	mapped := netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		if c, err := tcp.Accept(); err == nil {
			c.Close()
			t.Error("a connection came in")
		}
	}()
	for _, network := range []string{"tcp", "udp"} {
		for _, to := range []netip.AddrPort{to, mapped} {
			if c, err := new(system).Dial(t.Context(), network, to, func() { t.Error("it was announced") }); !errors.Is(err, errOwn) {
				t.Errorf("%s %s: got %v, %v", network, to, c, err)
			}
		}
	}
	tcp.Close()
	<-accepted
	// an address that one would not speak from passes: all of 127/8 leads here,
	// and 127.0.0.1 is spoken from
	if a, err := speaksFrom(netip.MustParseAddrPort("127.0.0.9:9")); err != nil || a != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("got %s, %v", a, err)
	}
}

// A granted port is found at either loopback address.
func TestLoopback(t *testing.T) {
	testenv.Require(t, testenv.IPv6Loopback)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		c, err := new(system).Loopback(t.Context(), uint16(l.Addr().(*net.TCPAddr).Port))
		if err != nil {
			t.Fatal(err)
		}
		if c.RemoteAddr().String() != l.Addr().String() {
			t.Errorf("got %s, want %s", c.RemoteAddr(), l.Addr())
		}
		c.Close()
		l.Close()
		if c, err := new(system).Loopback(t.Context(), uint16(l.Addr().(*net.TCPAddr).Port)); err == nil {
			c.Close()
			t.Error("a port is open at which nobody listens")
		}
	}
}

// A resolver that does not answer is not asked first again, the last one of the
// list neither.
func TestTurnOfResolvers(t *testing.T) {
	open := func() net.PacketConn {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	live, dead := open(), open()
	dead.Close()
	answers := &dns.Server{PacketConn: live, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetReply(q))
	})}
	ended := make(chan error, 1)
	go func() { ended <- answers.ActivateAndServe() }()
	at := func(c net.PacketConn) netip.AddrPort { return netip.MustParseAddrPort(c.LocalAddr().String()) }
	s := &system{resolvers: []netip.AddrPort{at(dead), at(live), at(dead)}}
	s.turn.Store(2)
	if _, err := s.Lookup(t.Context(), "a.example"); err != nil {
		t.Fatal(err)
	}
	if first := s.turn.Load(); first != 1 {
		t.Errorf("resolver %d is asked first, want 1, which answers", first)
	}
	if err := errors.Join(answers.Shutdown(), <-ended); err != nil {
		t.Error(err)
	}
}
