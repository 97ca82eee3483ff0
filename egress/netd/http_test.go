package netd

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
)

// webServer answers with what it got; one connection is served by the standard
// library.
func webServer(t testing.TB, cert *tls.Certificate, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}})
	}
	s := &http.Server{Handler: h}
	t.Cleanup(func() { s.Close() })
	go s.Serve(l)
	if tl, ok := l.(interface{ Addr() net.Addr }); ok {
		return tl.Addr().String()
	}
	return ""
}

func saysWhat(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Seen-Authorization", r.Header.Get("Authorization"))
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.URL.RequestURI(), body)
}

// plainBed has plain.example behind HTTP.
func plainBed(t testing.TB, h http.HandlerFunc) *bed {
	b := newBed(t, restricted(egress.Rule{Name: "plain.example", Protocol: egress.HTTP}, egress.Rule{Name: "allowed.example"}, tcpRule("raw.example"),
		egress.Rule{Name: "paths.example", Protocol: egress.HTTP, Paths: []string{"/v1/**"}}))
	for _, n := range []string{"plain.example", "paths.example", "allowed.example", "raw.example"} {
		b.world.name(n, "9.9.9.9")
	}
	b.world.server("9.9.9.9:80", webServer(t, nil, h))
	return b
}

// talk sends bytes on a connection and reads answers until the end.
func talk(t *testing.T, c net.Conn, text string) []*http.Response {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	var out []*http.Response
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			return out
		}
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		out = append(out, r)
	}
}

func codes(rs []*http.Response) string {
	var s []string
	for _, r := range rs {
		s = append(s, fmt.Sprint(r.StatusCode))
	}
	return strings.Join(s, " ")
}

// A client of HTTP/1.0 is answered with nothing of HTTP/1.1: no chunks (RFC 9112,
// 6.1), no 100 (RFC 9110, 10.1.1). The end of its answer is that of the connection.
func TestOldHTTP(t *testing.T) {
	b := plainBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, part := range []string{"in ", "parts"} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	for _, send := range []string{
		"GET / HTTP/1.0\r\nHost: plain.example\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: plain.example\r\nConnection: keep-alive\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: plain.example\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	} {
		c := b.mustReach("plain.example", 80)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		head, body, _ := strings.Cut(string(got), "\r\n\r\n")
		if err != nil || body != "in parts" || !strings.HasPrefix(head, "HTTP/1.1 200 ") || strings.Contains(head, "Transfer-Encoding") {
			t.Errorf("to %q: got %q, %v", send, got, err)
		}
	}
}

func TestPlainHTTP(t *testing.T) {
	const host = "Host: plain.example\r\n"
	for _, c := range []struct {
		name, send, want string
		reason           egress.Reason
		up               int // requests that reach the server
	}{
		{"two", "GET /a?q=1 HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", "200 200", "", 2},
		{"a URL in the query", "GET /r?to=https://x.example/ HTTP/1.1\r\n" + host + "\r\n", "200", "", 1},
		{"post", "POST /a HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody", "200", "", 1},
		{"chunked", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "200", "", 1},
		{"expect", "POST /a HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody", "100 200", "", 1},
		{"expect something else", "POST /a HTTP/1.1\r\n" + host + "Expect: 200-ok\r\nContent-Length: 4\r\n\r\nbody", "417", egress.ReasonExpect, 0},
		{"expect something more", "POST /a HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nExpect: x\r\nContent-Length: 4\r\n\r\nbody", "417", egress.ReasonExpect, 0},
		{"an empty port (RFC 9110, 4.2.3)", "GET / HTTP/1.1\r\nHost: plain.example:\r\n\r\n", "200", "", 1},
		{"http 1.0", "GET / HTTP/1.0\r\n" + host + "\r\n", "200", "", 1},
		{"D19 D22 other host", "GET / HTTP/1.1\r\n" + host + "\r\nGET / HTTP/1.1\r\nHost: other.example\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n", "200 421", egress.ReasonHostMismatch, 1},
		{"D23 absolute", "GET http://evil.example/ HTTP/1.1\r\n" + host + "\r\n", "400", egress.ReasonHostMismatch, 0},
		{"absolute, same host", "GET http://plain.example/ HTTP/1.1\r\n" + host + "\r\n", "400", egress.ReasonHostMismatch, 0},
		{"D55 two lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody", "400", egress.ReasonSmuggling, 0},
		{"D55 equal lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody", "400", egress.ReasonSmuggling, 0},
		{"D55 both", "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"D55 bare LF", "GET / HTTP/1.1\n" + "Host: plain.example\n\n", "400", egress.ReasonSmuggling, 0},
		{"D55 one bare LF", "GET / HTTP/1.1\r\nHost: plain.example\nX: y\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"folded", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"odd encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"space before colon", "POST / HTTP/1.1\r\n" + host + "Content-Length : 4\r\n\r\nbody", "400", egress.ReasonSmuggling, 0},
		{"plus length", "POST / HTTP/1.1\r\n" + host + "Content-Length: +4\r\n\r\nbody", "400", egress.ReasonSmuggling, 0},
		// Found out when the head has gone out: the server reads no end of it, and
		// its handler here waits for that.
		{"D55 bare LF in a chunk", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n4\nbody\n0\n\n", "400", egress.ReasonSmuggling, 0},
		{"D55 odd length of a chunk", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-4\r\nbody\r\n0\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"D55 long length of a chunk", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nbody\r\n0\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"D55 extension over two lines", "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n4;a=\"\r\nx\"\r\nbody\r\n0\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"D55 chunks in HTTP/1.0 (RFC 9112, 6.1)", "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", egress.ReasonSmuggling, 0},
		{"an authority as target (RFC 9112, 3.2)", "GET evil.example:80 HTTP/1.1\r\n" + host + "\r\n", "400", egress.ReasonMalformed, 0},
		{"a path without its slash", "GET a HTTP/1.1\r\n" + host + "\r\n", "400", egress.ReasonMalformed, 0},
		{"a star for GET", "GET * HTTP/1.1\r\n" + host + "\r\n", "400", egress.ReasonMalformed, 0},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400", egress.ReasonMalformed, 0},
		{"two hosts", "GET / HTTP/1.1\r\n" + host + host + "\r\n", "400", egress.ReasonMalformed, 0},
		{"D57 trace", "TRACE / HTTP/1.1\r\n" + host + "\r\n", "405", egress.ReasonMethodNotAllowed, 0},
		{"D57 connect", "CONNECT plain.example:80 HTTP/1.1\r\n" + host + "\r\n", "405", egress.ReasonMethodNotAllowed, 0},
		{"websocket", "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "403", egress.ReasonWebSocket, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := make(chan string, 16)
			b := plainBed(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					return
				}
				up <- r.Method
				saysWhat(w, r)
			})
			got := talk(t, b.mustReach("plain.example", 80), c.send)
			if codes(got) != c.want {
				t.Errorf("got %s, want %s", codes(got), c.want)
			}
			if n := len(up); n != c.up {
				t.Errorf("%d requests went out, want %d", n, c.up)
			}
			if c.reason != "" {
				b.event(egress.EventRequest, c.reason)
				if r := got[len(got)-1]; r.Header.Get("X-Isolate-Reason") != string(c.reason) || !r.Close {
					t.Errorf("the refusal says %q, close %t", r.Header.Get("X-Isolate-Reason"), r.Close)
				}
			}
		})
	}
}

func TestPlainHTTPKeepsWhatIsSent(t *testing.T) {
	b := plainBed(t, saysWhat)
	got := talk(t, b.mustReach("plain.example", 80), "PUT /a%20b/c?x=%2e&y HTTP/1.1\r\nHost: plain.example\r\nContent-Length: 4\r\n\r\nbody")
	if body, _ := io.ReadAll(got[0].Body); string(body) != "PUT plain.example /a%20b/c?x=%2e&y body" {
		t.Errorf("got %q", body)
	}
	e := b.event(egress.EventRequest, "")
	if e.Method != "PUT" || e.Path != "/a%20b/c" || e.Status != 200 || e.Host != "plain.example" {
		t.Errorf("got %+v", e)
	}
}

// D 26, 30, 31, 37, 39 through CONNECT.
func TestConnect(t *testing.T) {
	cert, pool := certificate(t, "allowed.example")
	b := plainBed(t, saysWhat)
	b.world.server("9.9.9.9:443", tlsServer(t, cert))
	b.world.server("9.9.9.9:7", listen(t, echo))
	proxy := func() net.Conn {
		c, err := b.dial("198.18.0.1:3128")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	for _, c := range []struct {
		target string
		want   int
		reason egress.Reason
	}{
		{"allowed.example:22", 403, egress.ReasonPortNotAllowed},
		{"allowed.example:25", 403, egress.ReasonPortNotAllowed},
		{"evil.example:443", 403, egress.ReasonNameNotAllowed},
		{"allowed.example..:443", 400, egress.ReasonNameInvalid},
		{"allowed%00.example:443", 400, egress.ReasonNameInvalid},
		{"a%0d%0ab.example:443", 400, egress.ReasonNameInvalid},
		{"x@allowed.example:443", 400, egress.ReasonNameInvalid},
		{`allowed\.example:443`, 400, egress.ReasonNameInvalid},
		{"127.1:80", 400, egress.ReasonNameInvalid},
		{"0177.0.0.1:80", 400, egress.ReasonNameInvalid},
		{"2130706433:80", 400, egress.ReasonNameInvalid},
		{"0x7f000001:80", 400, egress.ReasonNameInvalid},
		{"169.254.43518:80", 400, egress.ReasonNameInvalid},
		{"169.254.169.254:80", 403, egress.ReasonAddrDenied},
		{"127.0.0.1:80", 403, egress.ReasonAddrDenied},
		{"[::ffff:169.254.169.254]:80", 403, egress.ReasonAddrDenied},
		{"[64:ff9b::a9fe:a9fe]:80", 403, egress.ReasonAddrDenied},
		{"[2002:a9fe:a9fe::]:80", 403, egress.ReasonAddrDenied},
		{"[::7f00:1]:80", 403, egress.ReasonAddrDenied},
		{"9.9.9.9:443", 403, egress.ReasonIPLiteral},
		{"allowed.example:0", 400, egress.ReasonNameInvalid},
		{"allowed.example:443", 400, egress.ReasonHostMismatch}, // of the Host header
	} {
		got := talk(t, proxy(), "CONNECT "+c.target+" HTTP/1.1\r\nHost: x\r\n\r\nCONNECT allowed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		if len(got) != 1 || got[0].StatusCode != c.want || got[0].Header.Get("X-Isolate-Reason") != string(c.reason) {
			t.Errorf("%s: got %s, want %d %s and the end", c.target, codes(got), c.want, c.reason)
		}
	}
	b.untouched()
	// the same verdict as through the device, and the same checks after it
	connect := func(target string) net.Conn {
		c := proxy()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
		r, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, int64(len("HTTP/1.1 200 Connection established\r\n\r\n")))), nil)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", target, r, err)
		}
		return c
	}
	for _, host := range []string{"", "Host: allowed.example\r\n", "Host: Allowed.Example.:443\r\n"} {
		c := proxy()
		fmt.Fprintf(c, "CONNECT allowed.example:443 HTTP/1.0\r\n%s\r\n", host)
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("%q: %v, %v", host, r, err)
		}
	}
	good := tls.Client(connect("ALLOWED.example.:443"), &tls.Config{ServerName: "allowed.example", RootCAs: pool})
	if err := good.Handshake(); err != nil {
		t.Error(err)
	}
	b.event(egress.EventOpen, "")
	bad := connect("allowed.example:443")
	handshake("evil.example")(bad)
	refusedBy(t, b, &alertIsError{bad}, nil, egress.ReasonSNIMismatch)
	raw := connect("raw.example:7")
	fmt.Fprint(raw, "x")
	if _, err := io.ReadFull(raw, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func TestProxyWithWholeURLs(t *testing.T) {
	b := plainBed(t, saysWhat)
	for _, c := range []struct {
		send, want string
	}{
		{"GET http://plain.example/x HTTP/1.1\r\nHost: plain.example\r\n\r\n", "200"},
		{"GET http://plain.example:/x HTTP/1.1\r\nHost: plain.example:\r\n\r\n", "200"},
		{"CONNECT plain.example: HTTP/1.1\r\nHost: plain.example:\r\n\r\n", "400"},
		{"GET http://plain.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"},
		{"GET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"},
		{"GET http://allowed.example:443/x HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n", "403"},
		{"GET /x HTTP/1.1\r\nHost: plain.example\r\n\r\n", "400"},
		{"GET https://plain.example:80/x HTTP/1.1\r\nHost: plain.example:80\r\n\r\n", "400"},
		{"GET ftp://plain.example/x HTTP/1.1\r\nHost: plain.example\r\n\r\n", "400"},
		{"GET http://paths.example/v1/x HTTP/1.1\r\nHost: paths.example\r\n\r\nGET http://paths.example/v2 HTTP/1.1\r\nHost: paths.example\r\n\r\n", "200 403"},
	} {
		conn, err := b.dial("198.18.0.1:3128")
		if err != nil {
			t.Fatal(err)
		}
		if got := codes(talk(t, conn, c.send)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.send, got, c.want)
		}
		conn.Close()
	}
}

// apiBed intercepts api.example.
func apiBed(t *testing.T, h http.HandlerFunc) (*bed, *http.Client) {
	t.Helper()
	cert, pool := certificate(t, "api.example", "open.example")
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t, restricted(
		egress.Rule{Name: "api.example", Methods: []string{"GET"}, Paths: []string{"/v1/**"}, Inject: []egress.Secret{{Header: "Authorization", Variable: "TOKEN", Prefix: "Bearer "}}},
		egress.Rule{Name: "open.example", TLS: egress.Intercept},
	), func(o *Options) {
		o.Authority, o.Roots = a, pool
		o.Secrets = map[string]control.Secret{"TOKEN": {Value: "s3cr3t-value", Placeholder: "PLACEHOLDER-1"}}
	})
	b.world.name("api.example", "9.9.9.9")
	b.world.name("open.example", "9.9.9.9")
	b.world.server("9.9.9.9:443", webServer(t, &cert, h))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.PEM()))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return b.reach(host, 443)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return b, &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

func get(t *testing.T, c *http.Client, method, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return r, string(body)
}

// D 18, 19, 21, 54, 57
func TestIntercept(t *testing.T) {
	b, c := apiBed(t, saysWhat)
	r, body := get(t, c, "GET", "https://api.example/v1/items", nil)
	if r.StatusCode != 200 || body != "GET api.example /v1/items " {
		t.Fatalf("got %d %q", r.StatusCode, body)
	}
	leaf := r.TLS.PeerCertificates[0]
	if len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "api.example" || len(leaf.AuthorityKeyId) == 0 || len(leaf.SubjectKeyId) == 0 {
		t.Errorf("the certificate is for %v", leaf.DNSNames)
	}
	for _, x := range []struct {
		method, url string
		change      func(*http.Request)
		want        int
		reason      egress.Reason
	}{
		{"GET", "https://api.example/v2", nil, 403, egress.ReasonPathNotAllowed},
		{"POST", "https://api.example/v1/x", nil, 405, egress.ReasonMethodNotAllowed},
		{"GET", "https://api.example/v1/%2e%2e/admin", nil, 400, egress.ReasonPathAmbiguous},
		{"GET", "https://api.example/v1/x", func(r *http.Request) { r.Host = "other.example" }, 421, egress.ReasonHostMismatch},
		{"TRACE", "https://open.example/", nil, 405, egress.ReasonMethodNotAllowed},
	} {
		r, _ := get(t, c, x.method, x.url, x.change)
		if r.StatusCode != x.want || r.Header.Get("X-Isolate-Reason") != string(x.reason) {
			t.Errorf("%s %s: got %d %s", x.method, x.url, r.StatusCode, r.Header.Get("X-Isolate-Reason"))
		}
	}
	if e := b.event(egress.EventRequest, ""); e.Path != "/v1/items" || e.Rule == "" {
		t.Errorf("got %+v", e)
	}
}

// D 58, 59
func TestSecrets(t *testing.T) {
	b, c := apiBed(t, func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		w.Header().Set("Echo", auth)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s|%s", auth, base64.StdEncoding.EncodeToString([]byte(strings.TrimPrefix(auth, "Bearer "))))
	})
	r, body := get(t, c, "GET", "https://api.example/v1/x", func(r *http.Request) { r.Header.Set("Authorization", "Bearer PLACEHOLDER-1") })
	if strings.Contains(body, "s3cr3t") || strings.Contains(body, base64.StdEncoding.EncodeToString([]byte("s3cr3t-value"))) || strings.Contains(r.Header.Get("Echo"), "s3cr3t") {
		t.Errorf("the secret came in: %q %q", body, r.Header.Get("Echo"))
	}
	if !strings.HasPrefix(body, "[removed]") {
		t.Errorf("the server got no secret: %q", body)
	}
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer PLACEHOLDER-1") },
		func(r *http.Request) { r.SetBasicAuth("x", "PLACEHOLDER-1") },
		func(r *http.Request) { r.URL.RawQuery = "k=PLACEHOLDER-1" },
	} {
		if r, _ := get(t, c, "GET", "https://open.example/", change); r.StatusCode != 403 {
			t.Errorf("a secret for somebody else: %d", r.StatusCode)
		}
	}
	b.event(egress.EventRequest, egress.ReasonSecretScope)
}

// An upstream certificate that does not hold ends the request, not the check.
func TestUpstreamCertificate(t *testing.T) {
	_, c := apiBed(t, saysWhat)
	b, _ := apiBed(t, saysWhat) // trusts another server's certificate
	c.Transport.(*http.Transport).DialContext = func(_ context.Context, _, addr string) (net.Conn, error) { return b.reach("open.example", 443) }
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.network.options.Authority.PEM()))
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
	other, _ := certificate(t, "open.example")
	b.world.server("9.9.9.9:443", tlsServer(t, other))
	if r, _ := get(t, c, "GET", "https://open.example/", nil); r.StatusCode != 502 || r.Header.Get("X-Isolate-Reason") != string(egress.ReasonUpstreamTLS) {
		t.Errorf("got %d %s", r.StatusCode, r.Header.Get("X-Isolate-Reason"))
	}
}

func TestPolicyThatInterceptsNeedsAnAuthority(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "a.example"}))
	if err := b.network.Set(restricted(egress.Rule{Name: "a.example", TLS: egress.Intercept}), 2, time.Now()); err == nil {
		t.Error("it is taken")
	}
	b, _ = apiBed(t, saysWhat)
	for variable, known := range map[string]bool{"TOKEN": true, "OTHER": false} {
		rule := egress.Rule{Name: "api.example", Inject: []egress.Secret{{Header: "X", Variable: variable}}}
		if err := b.network.Set(restricted(rule), 3, time.Now()); (err == nil) != known {
			t.Errorf("a policy that injects $%s: %v", variable, err)
		}
	}
}

func FuzzHead(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\nHost: a\r\n", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n", "GET http://a/b?c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := readHead([]byte(s))
		if err != nil {
			return
		}
		// what is taken is taken by the library, too, and read in the same way
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.TrimSuffix(s, "\r\n") + "\r\n\r\n")))
		if err != nil {
			return
		}
		if !h.absolute && r.Method != "CONNECT" && r.Host != h.host {
			t.Fatalf("%q: host %q, the library says %q", s, h.host, r.Host)
		}
		if len(r.TransferEncoding) > 0 && r.Header.Get("Content-Length") != "" {
			t.Fatalf("%q: two framings", s)
		}
	})
}

func FuzzPeek(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Add(recordHello(f, "allowed.example"))
	f.Add(withExtension(recordHello(f, "allowed.example"), encryptedHello))
	f.Add(dotted(recordHello(f, "allowed.example")))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &memoryConn{strings.NewReader(string(b))}
		head, seen := peek(c, time.Second)
		if !strings.HasPrefix(string(b), string(head)) {
			t.Fatalf("what is replayed was not sent")
		}
		if seen.Kind == egress.SeenTLS && (len(b) < 9 || b[0] != 0x16) {
			t.Fatalf("%x is TLS", b)
		}
	})
}

type memoryConn struct{ *strings.Reader }

func (memoryConn) Write(b []byte) (int, error)      { return len(b), nil }
func (memoryConn) Close() error                     { return nil }
func (memoryConn) LocalAddr() net.Addr              { return nil }
func (memoryConn) RemoteAddr() net.Addr             { return nil }
func (memoryConn) SetDeadline(time.Time) error      { return nil }
func (memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (memoryConn) SetWriteDeadline(time.Time) error { return nil }
