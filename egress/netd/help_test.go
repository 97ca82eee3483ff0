package netd

import (
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

func addrPortOf(t testing.TB, addr string, port uint16) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(a, port)
}

func udpEcho(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(b[:n], from)
		}
	}()
	return c.LocalAddr().String()
}

func dnsQuery(t testing.TB, name string) []byte {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, dns.TypeA)
	raw, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// addressOf is the address of an answer.
func addressOf(t testing.TB, m *dns.Msg) string {
	t.Helper()
	if len(m.Answer) != 1 {
		t.Fatalf("no address: %v", m)
	}
	return m.Answer[0].(*dns.A).A.String()
}
