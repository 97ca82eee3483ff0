package netd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/isolate-run/isolate/egress"
)

// tlsServer answers every TLS connection with its name and what it reads.
func tlsServer(t testing.TB, cert tls.Certificate) string {
	return listen(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		if s.Handshake() == nil {
			echo(s)
			s.CloseWrite()
		}
	})
}

// refusedBy wants a connection that ends with an error before any byte.
func refusedBy(t *testing.T, b *bed, c net.Conn, err error, want egress.Reason) {
	t.Helper()
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if n, rerr := c.Read(make([]byte, 1)); rerr == nil {
			t.Errorf("%s: read %d bytes", want, n)
		}
		c.Close()
	}
	b.event(egress.EventDeny, want)
}

func TestTLSPassesThrough(t *testing.T) {
	cert, pool := certificate(t, "allowed.example")
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	b.world.name("allowed.example", "9.9.9.9")
	b.world.server("9.9.9.9:443", tlsServer(t, cert))
	c := tls.Client(b.mustReach("allowed.example", 443), &tls.Config{ServerName: "allowed.example", RootCAs: pool, NextProtos: []string{"h2"}})
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("got %q, %v", buf, err)
	}
	c.Close()
	open := b.event(egress.EventOpen, "")
	if open.Name != "allowed.example" || open.SNI != "allowed.example" || open.ALPN != "h2" || open.Rule == "" || open.Dial.String() != "9.9.9.9:443" || open.Via != egress.ViaTUN {
		t.Errorf("got %+v", open)
	}
	if end := b.event(egress.EventClose, ""); end.Flow != open.Flow || end.BytesIn < 100 || end.BytesOut < 100 {
		t.Errorf("got %+v", end)
	}
	// D 42: one look-up for the flow, and the address that was judged is dialled
	if l, d := b.world.touched(); len(l) != 1 || len(d) != 1 {
		t.Errorf("looked up %v, dialled %v", l, d)
	}
}

// D 13 to 15, 25, 27, 38: nothing goes out.
func TestTCPDenials(t *testing.T) {
	for _, c := range []struct {
		name, to string
		port     int
		send     func(net.Conn)
		want     egress.Reason
	}{
		{"literal", "9.9.9.9", 443, nil, egress.ReasonIPLiteral},
		{"metadata", "169.254.169.254", 80, nil, egress.ReasonAddrDenied},
		{"unmapped", "198.18.200.1", 443, nil, egress.ReasonUnmappedAddr},
		{"port", "", 8443, nil, egress.ReasonPortNotAllowed},
		{"ssh port", "", 22, nil, egress.ReasonPortNotAllowed},
		{"sni of another", "", 443, handshake("evil.example"), egress.ReasonSNIMismatch},
		{"no sni", "", 443, handshake(""), egress.ReasonSNIMissing},
		{"literal sni", "", 443, handshake("9.9.9.9"), egress.ReasonSNIMissing}, // the library sends none
		{"ssh", "", 443, write("SSH-2.0-x\r\n"), egress.ReasonProtoNotAllowed},
		{"http", "", 443, write("GET / HTTP/1.1\r\n\r\n"), egress.ReasonProtoNotAllowed},
		{"bytes", "", 443, write("\x00\x01\x02"), egress.ReasonProtoNotAllowed},
		{"broken tls", "", 443, write("\x16\x03\x01\x00\x05\x02\x00\x00\x00\x00"), egress.ReasonProtoNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
			b.world.name("allowed.example", "9.9.9.9")
			var conn *gonet.TCPConn
			var err error
			if c.to != "" {
				conn, err = b.dial(net.JoinHostPort(c.to, strconv.Itoa(c.port)))
			} else {
				conn, err = b.reach("allowed.example", c.port)
			}
			if err == nil && c.send != nil {
				c.send(conn)
			}
			if err == nil && c.send == nil {
				t.Error("the connection was accepted")
			}
			b.event(egress.EventDeny, c.want)
			if err == nil {
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				got, rerr := io.ReadAll(conn)
				if len(got) > 0 && !bytes.Equal(got, alert) {
					t.Errorf("read %q", got)
				}
				if c.want == egress.ReasonSNIMismatch && (len(got) == 0 || rerr != nil) {
					t.Errorf("no alert came: %v", rerr)
				}
				conn.Close()
			}
			b.untouched()
		})
	}
}

func write(s string) func(net.Conn) {
	return func(c net.Conn) { _, _ = c.Write([]byte(s)) }
}

func handshake(sni string) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Client(halfConn{c}, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		_ = s.Handshake()
	}
}

// halfConn can be written only: the answer is for the test.
type halfConn struct{ net.Conn }

func (halfConn) Read([]byte) (int, error) { return 0, io.EOF }

// D 17: a hello that hides its name.
func TestECH(t *testing.T) {
	for _, extension := range []uint16{encryptedHello, encryptedHelloDraft, encryptedName} {
		b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
		raw := recordHello(t, "allowed.example")
		c := b.mustReach("allowed.example", 443)
		if _, err := c.Write(withExtension(raw, extension)); err != nil {
			t.Fatal(err)
		}
		refusedBy(t, b, &alertIsError{c}, nil, egress.ReasonECH)
		b.untouched()
	}
}

// alertIsError is a connection on which an alert is no data.
type alertIsError struct{ net.Conn }

func (a *alertIsError) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if n > 0 && p[0] == 21 {
		return 0, errors.New("alert")
	}
	return n, err
}

// recordHello is the first message of a TLS client.
func recordHello(t testing.TB, sni string) []byte {
	t.Helper()
	var b bytes.Buffer
	s := tls.Client(&recordingConn{&b}, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if err := s.Handshake(); err == nil {
		t.Fatal("a handshake with nobody")
	}
	return b.Bytes()
}

type recordingConn struct{ w *bytes.Buffer }

func (r *recordingConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recordingConn) Write(b []byte) (int, error)      { return r.w.Write(b) }
func (r *recordingConn) Close() error                     { return nil }
func (r *recordingConn) LocalAddr() net.Addr              { return nil }
func (r *recordingConn) RemoteAddr() net.Addr             { return nil }
func (r *recordingConn) SetDeadline(time.Time) error      { return nil }
func (r *recordingConn) SetReadDeadline(time.Time) error  { return nil }
func (r *recordingConn) SetWriteDeadline(time.Time) error { return nil }

// withExtension adds an empty extension to a hello in one record: lengths are
// at 3 (record), 6 (message) and before the extensions.
func withExtension(hello []byte, kind uint16) []byte {
	h := bytes.Clone(hello)
	at := 5 + 4 + 2 + 32
	at += 1 + int(h[at])                           // session id
	at += 2 + int(h[at])<<8 + int(h[at+1])         // cipher suites
	at += 1 + int(h[at])                           // compression
	h = append(h, byte(kind>>8), byte(kind), 0, 0) // the extension
	add := func(i int) {
		n := int(h[i])<<8 + int(h[i+1]) + 4
		h[i], h[i+1] = byte(n>>8), byte(n)
	}
	add(3)
	add(7)
	add(at)
	return h
}

// D 69: a hello in single bytes, a long one, and none.
func TestHellosInPieces(t *testing.T) {
	cert, _ := certificate(t, "allowed.example")
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}), func(o *Options) { o.Times.Hello = 8 * time.Second })
	b.world.name("allowed.example", "9.9.9.9")
	b.world.server("9.9.9.9:443", tlsServer(t, cert))
	c := b.mustReach("allowed.example", 443)
	s := tls.Client(oneByteConn{c}, &tls.Config{ServerName: "allowed.example", InsecureSkipVerify: true})
	if err := s.Handshake(); err != nil {
		t.Errorf("in single bytes: %v", err)
	}
	var protos []string // 20 KiB of ALPN
	for len(protos) < 100 {
		protos = append(protos, strings.Repeat("x", 200))
	}
	d := b.mustReach("allowed.example", 443)
	s = tls.Client(d, &tls.Config{ServerName: "allowed.example", InsecureSkipVerify: true, NextProtos: protos})
	if err := s.Handshake(); err != nil && !strings.Contains(err.Error(), "application protocol") {
		t.Errorf("long: %v", err)
	}
	began := time.Now()
	refusedBy(t, b, b.mustReach("allowed.example", 443), nil, egress.ReasonHelloTimeout)
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("a silent connection was given up after %s", took)
	}
}

type oneByteConn struct{ net.Conn }

func (o oneByteConn) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := o.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func tcpRule(name string) egress.Rule {
	return egress.Rule{Name: name, Protocol: egress.TCP, Ports: []int{7}}
}

// D 41, 43, 46: what names lead to.
func TestAddressesAreJudged(t *testing.T) {
	for _, c := range []struct {
		addrs []string
		want  egress.Reason
		class egress.Class
	}{
		{[]string{"127.0.0.1"}, egress.ReasonAddrDenied, egress.ClassLoopback},
		{[]string{"10.0.0.5"}, egress.ReasonAddrDenied, egress.ClassPrivate},
		{[]string{"100.64.0.1"}, egress.ReasonAddrDenied, egress.ClassPrivate},
		{[]string{"169.254.169.254"}, egress.ReasonAddrDenied, egress.ClassMetadata},
		{[]string{"fd00::1"}, egress.ReasonAddrDenied, egress.ClassPrivate},
		{[]string{"9.9.9.9", "10.0.0.5"}, egress.ReasonAddrMixed, egress.ClassPrivate},
		{nil, egress.ReasonUnresolved, ""},
	} {
		for _, mode := range []egress.Policy{restricted(tcpRule("a.example")), {Mode: egress.ModeFull}} {
			b := newBed(t, mode)
			b.world.name("a.example", c.addrs...)
			if conn, err := b.reach("a.example", 7); err == nil {
				conn.Close()
				t.Errorf("%v: connected", c.addrs)
			}
			if e := b.event(egress.EventDeny, c.want); e.Class != c.class {
				t.Errorf("%v: class %q, want %q", c.addrs, e.Class, c.class)
			}
			if _, d := b.world.touched(); len(d) > 0 {
				t.Errorf("%v: dialled %v", c.addrs, d)
			}
		}
	}
}

// D 70: the program ends its side first and still gets everything.
func TestHalfClose(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	const size = 8 << 20
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		got, _ := io.ReadAll(c)
		if string(got) == "request" {
			_, _ = c.Write(make([]byte, size))
		}
	}))
	c := b.mustReach("a.example", 7)
	if _, err := c.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	got, err := io.ReadAll(c)
	if err != nil || len(got) != size {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	c.Close()
	if e := b.event(egress.EventClose, ""); e.BytesIn != size || e.BytesOut != 7 {
		t.Errorf("got %+v", e)
	}
}

// endless sends until it cannot.
func endless(c net.Conn) {
	b := make([]byte, 32<<10)
	for {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// D 61: a download that runs across the end of its rule.
func TestExpiryCutsADownload(t *testing.T) {
	r := tcpRule("a.example")
	r.For = 3 * time.Second
	b := newBed(t, restricted(r))
	granted := time.Now()
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, endless))
	c := b.mustReach("a.example", 7)
	at := c.RemoteAddr().String()
	_, err := io.Copy(io.Discard, c)
	late := time.Since(granted) - r.For
	if err == nil {
		t.Error("the program saw an ordinary end")
	}
	if late < 0 || late > 10*time.Second {
		t.Errorf("cut %s after the end", late)
	}
	if e := b.event(egress.EventClose, egress.ReasonRuleExpired); e.BytesIn == 0 {
		t.Errorf("got %+v", e)
	}
	again, err := b.dial(at)
	refusedBy(t, b, again, err, egress.ReasonRuleExpired)
}

// D 62
func TestRevocationCutsOnlyWhatItRevokes(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example"), tcpRule("b.example")))
	for _, n := range []string{"a.example", "b.example"} {
		b.world.name(n, "9.9.9.9")
	}
	b.world.server("9.9.9.9:7", listen(t, echo))
	gone, stays := b.mustReach("a.example", 7), b.mustReach("b.example", 7)
	ping := func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	if err := errors.Join(ping(gone), ping(stays)); err != nil {
		t.Fatal(err)
	}
	b.set(2, restricted(tcpRule("b.example"), tcpRule("c.example")))
	if err := ping(gone); err == nil {
		t.Error("a revoked flow goes on")
	}
	if err := ping(stays); err != nil {
		t.Errorf("a flow that is still allowed: %v", err)
	}
	b.event(egress.EventClose, egress.ReasonPolicyRevoked)
}

// D 65
func TestBlackHolesDoNotBlock(t *testing.T) {
	b := newBed(t, restricted(tcpRule("hole.example"), tcpRule("good.example")), func(o *Options) { o.Times.Dial = 10 * time.Second })
	b.world.name("hole.example", "9.9.9.1")
	b.world.name("good.example", "9.9.9.9")
	b.world.server("9.9.9.1:7", "black hole")
	b.world.server("9.9.9.9:7", listen(t, echo))
	for range 10 {
		go b.reach("hole.example", 7)
	}
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	b.mustReach("good.example", 7)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a good flow took %s", took)
	}
	b.event(egress.EventDeny, egress.ReasonDialFailed)
}

// D 49
func TestUDP(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}, egress.Rule{Name: "u.example", Protocol: egress.UDP, Ports: []int{123}}))
	b.world.name("u.example", "9.9.9.9")
	b.world.server("9.9.9.9:123", udpEcho(t))
	m := b.query("allowed.example", 1)
	for _, to := range []string{m.Answer[0].String(), "9.9.9.9"} {
		fields := strings.Fields(to)
		remote := full(addrPortOf(t, fields[len(fields)-1], 443))
		c, err := gonet.DialUDP(b.client, nil, &remote, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write([]byte("quic"))
		if _, err := c.Read(make([]byte, 8)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: got %v, want a refusal", to, err)
		}
		c.Close()
	}
	b.event(egress.EventDeny, egress.ReasonProtoNotAllowed)
	b.event(egress.EventDeny, egress.ReasonIPLiteral)
	b.untouched()

	m = b.query("u.example", 1)
	fields := strings.Fields(m.Answer[0].String())
	remote := full(addrPortOf(t, fields[len(fields)-1], 123))
	c, err := gonet.DialUDP(b.client, nil, &remote, ipv4.ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write([]byte("time"))
	buf := make([]byte, 8)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "time" {
		t.Errorf("got %q, %v", buf[:n], err)
	}
	b.event(egress.EventOpen, "")
}
