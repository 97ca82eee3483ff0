package netd

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/egress"
)

// named is a request for a name.
func named(host string, port byte) []byte {
	return append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), 0, port)
}

// addressed is one for an address.
func addressed(addr string, port byte) []byte {
	a := netip.MustParseAddr(addr)
	kind := byte(socksIPv6)
	if a.Is4() {
		kind = socksIPv4
	}
	return append(append([]byte{5, 1, 0, kind}, a.AsSlice()...), 0, port)
}

// D 29, and what the other ways refuse.
func TestSOCKSRefusals(t *testing.T) {
	b := plainBed(t, saysWhat)
	for _, c := range []struct {
		request []byte
		code    byte
		reason  egress.Reason
	}{
		{named("evil.example\x00.allowed.example", 80), 2, egress.ReasonNameInvalid},
		{named("evil.example", 80), 2, egress.ReasonNameNotAllowed},
		{named("raw.example", 22), 2, egress.ReasonPortNotAllowed},
		{named("127.1", 80), 2, egress.ReasonNameInvalid},
		{named("169.254.169.254", 80), 2, egress.ReasonAddrDenied},
		{named("raw.example", 0), 2, egress.ReasonNameInvalid},
		{addressed("9.9.9.9", 80), 2, egress.ReasonIPLiteral},
		{addressed("169.254.169.254", 80), 2, egress.ReasonAddrDenied},
		{addressed("::ffff:169.254.169.254", 80), 2, egress.ReasonAddrDenied},
		{addressed("64:ff9b::a9fe:a9fe", 80), 2, egress.ReasonAddrDenied},
		{addressed("198.18.77.1", 80), 2, egress.ReasonUnmappedAddr},
		{[]byte{5, 2, 0, 3, 1, 'a', 0, 80}, 7, egress.ReasonMalformed}, // BIND
		{[]byte{5, 3, 0, 1, 9, 9, 9, 9, 0, 80}, 7, egress.ReasonMalformed},
		{[]byte{5, 1, 0, 9, 1, 'a', 0, 80}, 8, egress.ReasonMalformed},
		{[]byte{5, 1, 0, 3, 0, 0, 80}, 8, egress.ReasonMalformed},
	} {
		conn, code, err := b.ask(c.request)
		if err != nil || code != c.code {
			t.Errorf("%x: got code %d, %v; want %d", c.request, code, err, c.code)
			continue
		}
		b.event(egress.EventDeny, c.reason)
		if _, err := io.WriteString(conn, "more"); err == nil {
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%x: %d bytes after the refusal", c.request, n)
			}
		}
	}
	b.untouched()
	b.world.name("nobody.example")
	b.set(2, restricted(tcpRule("nobody.example")))
	if _, code, err := b.ask(named("nobody.example", 7)); err != nil || code != socksUnreachable {
		t.Errorf("a name without an address: code %d, %v", code, err)
	}
}

func TestSOCKSCarries(t *testing.T) {
	b := plainBed(t, saysWhat)
	cert, pool := certificate(t, "allowed.example")
	b.world.server("9.9.9.9:443", tlsServer(t, cert))
	b.world.server("9.9.9.9:7", listen(t, echo))
	// an address that a name has inside stands for the name
	at := addressOf(t, b.query("raw.example", 1))
	for _, request := range [][]byte{named("RAW.example.", 7), addressed(at, 7), addressed("::ffff:"+at, 7), named(at, 7)} {
		c, code, err := b.ask(append(request, "early"...)) // before it was granted
		if err != nil || code != socksGranted {
			t.Fatalf("%x: code %d, %v", request, code, err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early" {
			t.Errorf("%x: got %q, %v", request, got, err)
		}
		c.Close()
	}
	c, err := b.socks("allowed.example", 443)
	if err != nil {
		t.Fatal(err)
	}
	if err := tls.Client(c, &tls.Config{ServerName: "allowed.example", RootCAs: pool}).Handshake(); err != nil {
		t.Error(err)
	}
	if c, err = b.socks("plain.example", 80); err != nil {
		t.Fatal(err)
	}
	if got := codes(talk(t, c, "GET / HTTP/1.1\r\nHost: plain.example\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")); got != "200 421" {
		t.Errorf("got %s", got)
	}
	for _, e := range b.log.all() {
		if e.Type == egress.EventOpen && e.Via != egress.ViaSOCKS {
			t.Errorf("a flow by %s", e.Via)
		}
	}
	// who insists on a password gets nothing
	conn, err := b.dial("198.18.0.1:1080")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte{5, 1, 2})
	if got, _ := io.ReadAll(conn); !bytes.Equal(got, []byte{5, socksNoMethod}) {
		t.Errorf("got %x", got)
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add(named("a.example", 80))
	f.Add(addressed("9.9.9.9", 80))
	f.Add(addressed("::1", 80))
	f.Add([]byte{5, 1, 0, 3, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		host, port, code, err := socksRequest(r)
		if err != nil {
			if host != "" || port != 0 {
				t.Fatalf("%x: %q and %d with %v", b, host, port, err)
			}
			return
		}
		if code != 0 || host == "" || len(b)-r.Len() > 5+255+2 {
			t.Fatalf("%x: %q, code %d", b, host, code)
		}
		if h, err := egress.ParseHost(host); err == nil && strings.ContainsAny(h.String(), "\x00 /@") {
			t.Fatalf("%x is host %q", b, h)
		}
	})
}
