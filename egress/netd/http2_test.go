package netd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
)

// http2Bed intercepts api.example and open.example, behind which a server
// speaks HTTP/2; its client speaks nothing else.
func http2Bed(t *testing.T, protocols []string, h http.HandlerFunc) (*bed, *http.Client) {
	t.Helper()
	cert, pool := certificate(t, "api.example", "open.example")
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t, restricted(
		egress.Rule{Name: "api.example", Methods: []string{"GET", "POST"}, Paths: []string{"/v1/**"}, Inject: []egress.Secret{{Header: "Authorization", Variable: "TOKEN", Prefix: "Bearer "}}},
		egress.Rule{Name: "open.example", TLS: egress.Intercept},
	), func(o *Options) {
		o.Authority, o.Roots = a, pool
		o.Secrets = map[string]control.Secret{"TOKEN": {Value: "s3cr3t-value", Placeholder: "PLACEHOLDER-1"}}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols}, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(protocols[0] == protocolHTTP2)
	t.Cleanup(func() { s.Close() })
	go s.ServeTLS(l, "", "")
	for _, n := range []string{"api.example", "open.example"} {
		b.world.name(n, "9.9.9.9")
	}
	b.world.server("9.9.9.9:443", l.Addr().String())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.PEM()))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols), DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return b.reach(host, 443)
	}}
	tr.Protocols.SetHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return b, &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// Requests of HTTP/2 meet the verdicts of those of HTTP/1, whatever the host
// speaks.
func TestHTTP2(t *testing.T) {
	for _, protocols := range [][]string{{protocolHTTP2, protocolHTTP1}, {protocolHTTP1}} {
		var mu sync.Mutex
		var up []string
		b, c := http2Bed(t, protocols, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			up = append(up, r.Method+" "+r.URL.Path)
			mu.Unlock()
			saysWhat(w, r)
		})
		r, body := get(t, c, "GET", "https://api.example/v1/items?x=%2e", nil)
		if r.ProtoMajor != 2 || r.StatusCode != 200 || body != "GET api.example /v1/items?x=%2e " {
			t.Fatalf("%v: got %s %d %q", protocols, r.Proto, r.StatusCode, body)
		}
		for _, x := range []struct {
			method, url string
			change      func(*http.Request)
			want        int
			reason      egress.Reason
		}{
			{"GET", "https://api.example/v2", nil, 403, egress.ReasonPathNotAllowed},
			{"PUT", "https://api.example/v1/x", nil, 405, egress.ReasonMethodNotAllowed},
			{"GET", "https://api.example/v1/%2e%2e/admin", nil, 400, egress.ReasonPathAmbiguous},
			{"GET", "https://api.example/v1/x", func(r *http.Request) { r.Host = "other.example" }, 421, egress.ReasonHostMismatch},
			{"GET", "https://api.example/v1/x", func(r *http.Request) { r.Host = "open.example" }, 421, egress.ReasonHostMismatch},
			{"TRACE", "https://open.example/", nil, 405, egress.ReasonMethodNotAllowed},
			{"GET", "https://open.example/", func(r *http.Request) { r.Header.Set("X", "PLACEHOLDER-1") }, 403, egress.ReasonSecretScope},
		} {
			r, body := get(t, c, x.method, x.url, x.change)
			if r.ProtoMajor != 2 || r.StatusCode != x.want || r.Header.Get("X-Isolate-Reason") != string(x.reason) || !strings.Contains(body, string(x.reason)) {
				t.Errorf("%s %s: got %s %d %s", x.method, x.url, r.Proto, r.StatusCode, body)
			}
			b.event(egress.EventRequest, x.reason)
		}
		if mu.Lock(); fmt.Sprint(up) != "[GET /v1/items]" {
			t.Errorf("%v: %v went out", protocols, up)
		}
		mu.Unlock()
		if e := b.event(egress.EventRequest, ""); e.Path != "/v1/items" || e.Method != "GET" || e.Status != 200 || e.Host != "api.example" || e.Rule == "" {
			t.Errorf("got %+v", e)
		}
		if e := b.event(egress.EventOpen, ""); e.ALPN != "h2" {
			t.Errorf("got %+v", e)
		}
	}
}

// What gRPC needs: both ways at once, trailers that nobody announced, an answer
// that is trailers only, and the header that asks for them.
func TestHTTP2Streams(t *testing.T) {
	b, c := http2Bed(t, []string{protocolHTTP2}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.Header.Get("Te") != "trailers" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if r.URL.Path == "/v1/only" {
			w.Header().Set("Grpc-Status", "5")
			return
		}
		flush := http.NewResponseController(w)
		_ = flush.Flush()
		word := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, word); err != nil {
				break
			}
			_, _ = w.Write(word)
			_ = flush.Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", r.Trailer.Get("Sent"))
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "for "+r.Header.Get("Authorization"))
	})
	body, send := io.Pipe()
	req, _ := http.NewRequest("POST", "https://api.example/v1/call", body)
	req.Header.Set("Te", "trailers")
	req.Trailer = http.Header{"Sent": nil}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for _, word := range []string{"ping", "pong"} {
		_, _ = io.WriteString(send, word)
		got := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != word {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	req.Trailer.Set("Sent", "7")
	send.Close()
	if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	if r.Trailer.Get("Grpc-Status") != "7" || strings.Contains(r.Trailer.Get("Grpc-Message"), "s3cr3t") || !strings.HasPrefix(r.Trailer.Get("Grpc-Message"), "for [removed]") {
		t.Errorf("trailers %v", r.Trailer)
	}
	// an answer that ends with its head stays one: it is how gRPC says that a
	// call failed
	conn := tls.Client(b.mustReach("api.example", 443), &tls.Config{ServerName: "api.example", InsecureSkipVerify: true, NextProtos: []string{protocolHTTP2}})
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	frames := http2.NewFramer(conn, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "api.example"}, {":path", "/v1/only"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, frames.WriteSettings(), frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true})); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := f.(*http2.MetaHeadersFrame); ok {
			if !m.StreamEnded() || !strings.Contains(fmt.Sprint(m.Fields), "grpc-status") {
				t.Errorf("an answer of trailers only came as %v", m)
			}
			return
		}
	}
}

// Many requests at once on one connection, with one connection to the host.
func TestHTTP2AtOnce(t *testing.T) {
	for _, protocols := range [][]string{{protocolHTTP2}, {protocolHTTP1}} {
		b, c := http2Bed(t, protocols, saysWhat)
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				path := fmt.Sprintf("/v1/%d", i)
				if i%3 == 0 {
					path = "/v2"
				}
				r, body := get(t, c, "GET", "https://api.example"+path, nil)
				if i%3 != 0 && (r.StatusCode != 200 || !strings.Contains(body, path)) || i%3 == 0 && r.StatusCode != 403 {
					t.Errorf("%s: got %d %q", path, r.StatusCode, body)
				}
			})
		}
		all.Wait()
		_, dials := b.world.touched()
		flows := map[uint64]bool{}
		for _, e := range b.log.all() {
			if e.Type == egress.EventOpen {
				flows[e.Flow] = true
			}
		}
		if most := map[string]int{protocolHTTP2: 1, protocolHTTP1: maxUpstream}[protocols[0]]; len(dials) > most*len(flows) {
			t.Errorf("%v: %d connections for %d flows", protocols, len(dials), len(flows))
		}
	}
}

// A change of the policy ends what streams, and nothing is left.
func TestHTTP2IsCut(t *testing.T) {
	gone := make(chan struct{})
	b, c := http2Bed(t, []string{protocolHTTP2}, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "more")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	r, err := c.Get("https://open.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.ReadFull(r.Body, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	b.set(2, restricted())
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("the program saw an ordinary end")
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the host is still asked")
	}
	b.event(egress.EventClose, egress.ReasonPolicyRevoked)
}

// A request that the program gives up is in the log: it may have gone out.
func TestHTTP2GivenUp(t *testing.T) {
	came := make(chan struct{})
	b, c := http2Bed(t, []string{protocolHTTP2}, func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	req, _ := http.NewRequestWithContext(ctx, "GET", "https://open.example/given-up", nil)
	if _, err := c.Do(req); err == nil {
		t.Fatal("an answer came")
	}
	want(t, b, func(e egress.Event) bool {
		return e.Type == egress.EventRequest && e.Path == "/given-up" && e.Verdict == egress.Allow && e.Status == 0
	})
}

// An answer that breaks off is no whole answer inside.
func TestHTTP2BrokenAnswer(t *testing.T) {
	_, c := http2Bed(t, []string{protocolHTTP2}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	})
	r, err := c.Get("https://open.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("got %q and an ordinary end", got)
	}
}
