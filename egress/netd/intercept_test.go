package netd

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// echConfig is a list of one key with which a client encrypts its hello, for
// servers known outside as public (RFC 9849, 4).
func echConfig(t *testing.T, public string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := []byte{7, 0, 0x20, 0, 32} // id, X25519, length of the key
	c = append(c, key.PublicKey().Bytes()...)
	c = append(c, 0, 4, 0, 1, 0, 1, 32) // HKDF-SHA256 with AES-128-GCM, longest name
	c = append(append(c, byte(len(public))), public...)
	c = append(c, 0, 0) // extensions
	list := binary.BigEndian.AppendUint16(nil, uint16(len(c)+4))
	list = binary.BigEndian.AppendUint16(list, encryptedHello)
	return append(binary.BigEndian.AppendUint16(list, uint16(len(c))), c...)
}

// D 17, 18: a client that hides its name is refused where TLS passes through;
// where it ends here the handshake is finished without the hiding.
func TestECHClient(t *testing.T) {
	b, _ := apiBed(t, saysWhat)
	b.set(2, restricted(egress.Rule{Name: "open.example", TLS: egress.Intercept}, egress.Rule{Name: "peek.example"}))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.network.options.Authority.PEM()))
	shake := func(name string) error {
		c := b.mustReach(name, 443)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return tls.Client(c, &tls.Config{ServerName: "hidden.example", RootCAs: roots, EncryptedClientHelloConfigList: echConfig(t, name)}).Handshake()
	}
	var rejected *tls.ECHRejectionError // after a handshake that holds for the name outside
	if err := shake("open.example"); !errors.As(err, &rejected) {
		t.Errorf("intercepted: got %v", err)
	}
	if err := shake("peek.example"); err == nil || errors.As(err, &rejected) {
		t.Errorf("passed through: got %v", err)
	}
	b.event(egress.EventDeny, egress.ReasonECH)
	b.untouched()
}

// Where TLS ends here, a name with a dot at its end is refused in words.
func TestDottedNameIntercepted(t *testing.T) {
	b, _ := apiBed(t, saysWhat)
	b.set(2, restricted(egress.Rule{Name: "allowed.example", TLS: egress.Intercept}))
	c := b.mustReach("allowed.example", 443)
	if _, err := c.Write(dotted(recordHello(t, "allowed.example"))); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, b, &alertIsError{c}, nil, egress.ReasonNameInvalid)
	b.untouched()
}

// D 15: an address in place of the name, which no library sends.
func TestAddressAsServerName(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	c := b.mustReach("allowed.example", 443)
	if _, err := c.Write(bytes.Replace(recordHello(t, "x.x.x.x"), []byte("x.x.x.x"), []byte("9.9.9.9"), 1)); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, b, &alertIsError{c}, nil, egress.ReasonSNIMismatch)
	b.untouched()
}

// D 22, 55, 57 inside of TLS that ends here: requests are judged one by one.
func TestInterceptedBytes(t *testing.T) {
	const host = "Host: open.example\r\n"
	for _, c := range []struct {
		name, send, want string
		reason           egress.Reason
	}{
		{"pipelined", "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", "200 200", ""},
		{"D22", "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\nHost: evil.example\r\n\r\n", "200 421", egress.ReasonHostMismatch},
		{"D57 connect", "CONNECT open.example:443 HTTP/1.1\r\n" + host + "\r\n", "405", egress.ReasonMethodNotAllowed},
		{"D57 trace", "TRACE / HTTP/1.1\r\n" + host + "\r\n", "405", egress.ReasonMethodNotAllowed},
		{"D55", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", egress.ReasonSmuggling},
		{"websocket", "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "403", egress.ReasonWebSocket},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := apiBed(t, saysWhat)
			conn := tls.Client(b.mustReach("open.example", 443), &tls.Config{ServerName: "open.example", InsecureSkipVerify: true})
			if got := talk(t, conn, c.send); codes(got) != c.want {
				t.Errorf("got %s, want %s", codes(got), c.want)
			}
			if c.reason != "" {
				b.event(egress.EventRequest, c.reason)
			}
		})
	}
}

// A refusal is read by a program that is still sending what was refused.
func TestRefusalOfALongBody(t *testing.T) {
	b, _ := apiBed(t, saysWhat)
	for range 20 {
		c := tls.Client(b.mustReach("api.example", 443), &tls.Config{ServerName: "api.example", InsecureSkipVerify: true})
		got := talk(t, c, "POST /v1/x HTTP/1.1\r\nHost: api.example\r\nContent-Length: 4000000\r\n\r\n"+strings.Repeat("x", 4000000))
		if codes(got) != "405" {
			t.Fatalf("got %q", codes(got))
		}
	}
}

// D 58: the header alone gets no secret: it is for the host that we dial
// ourselves, over TLS.
func TestNoSecretInTheClear(t *testing.T) {
	b, _ := apiBed(t, saysWhat)
	secret := egress.Rule{Name: "api.example", Inject: []egress.Secret{{Header: "Authorization", Variable: "TOKEN"}}}
	b.set(2, restricted(secret, egress.Rule{Name: "api.example", Protocol: egress.HTTP}, egress.Rule{Name: "plain.example", Protocol: egress.HTTP}))
	b.world.name("plain.example", "9.9.9.9")
	b.world.server("9.9.9.9:80", webServer(t, nil, saysWhat))
	for name, wants := range map[string]string{"api.example": "200", "plain.example": "421"} {
		got := talk(t, b.mustReach(name, 80), "GET / HTTP/1.1\r\nHost: api.example\r\nAuthorization: mine\r\n\r\n")
		if codes(got) != wants {
			t.Errorf("%s: got %s", name, codes(got))
		}
		if auth := got[0].Header.Get("Seen-Authorization"); wants == "200" && auth != "mine" {
			t.Errorf("%s: the server got %q", name, auth)
		}
	}
	// the placeholder, too, stays inside
	got := talk(t, b.mustReach("plain.example", 80), "GET / HTTP/1.1\r\nHost: plain.example\r\nX: PLACEHOLDER-1\r\n\r\n")
	if codes(got) != "403" {
		t.Errorf("a placeholder in the clear: %s", codes(got))
	}
}

// D 42, 45: names move. Every connection is judged by the look-up that it is
// dialled by.
func TestNamesMove(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	answers := func(text string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, text) } }
	b.world.server("9.9.9.9:7", listen(t, answers("old")))
	b.world.server("9.9.9.8:7", listen(t, answers("new")))
	for _, step := range []struct{ addr, want string }{{"9.9.9.9", "old"}, {"9.9.9.8", "new"}, {"10.0.0.5", ""}, {"9.9.9.9", "old"}} {
		b.world.name("a.example", step.addr)
		c, err := b.reach("a.example", 7)
		if err != nil {
			if step.want != "" {
				t.Errorf("%s: %v", step.addr, err)
			}
			continue
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if got, _ := io.ReadAll(c); string(got) != step.want {
			t.Errorf("%s: got %q, want %q", step.addr, got, step.want)
		}
		c.Close()
	}
	lookups, dials := b.world.touched()
	if len(lookups) != 4 || len(dials) != 3 {
		t.Errorf("looked up %v, dialled %v", lookups, dials)
	}
	b.event(egress.EventDeny, egress.ReasonAddrDenied)
}

// What a flow has open upstream is known until it is closed, and cut with it.
func TestUpstreamConnectionsAreForgotten(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	fl := b.network.newFlow(egress.ViaTUN, netip.AddrPort{}, egress.Flow{Host: egress.Host{Name: "a.example"}, Port: 7, Transport: egress.OverTCP})
	defer fl.done()
	for range 20 {
		c, err := fl.connect(t.Context(), "tcp")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	last, err := fl.connect(t.Context(), "tcp")
	if err != nil || len(fl.ups) != 1 || len(fl.cuts) != 0 {
		t.Fatalf("%v: %d connections, %d other things to cut", err, len(fl.ups), len(fl.cuts))
	}
	fl.cut(egress.ReasonPolicyRevoked)
	if _, err := last.Read(make([]byte, 1)); err == nil || len(fl.ups) != 0 {
		t.Errorf("after the cut: %v, %d connections", err, len(fl.ups))
	}
}
