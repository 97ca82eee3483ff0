package netd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// form is how requests come.
type form int

const (
	plain     form = iota // in the clear, to the host itself
	proxied               // in the clear, with whole URLs, to the proxy
	decrypted             // out of TLS that was ended here
)

// httpFlow serves HTTP on a flow: every request is judged, and written anew
// for the other side, so that both read the same.
type httpFlow struct {
	*flow
	form    form
	secrets secrets
	// ctx ends with the flow's service.
	ctx context.Context

	// Of HTTP/1, where requests come one by one.
	c         conn
	br        *bufio.Reader
	transport *http.Transport

	// mu guards what the flow knows of itself: requests of HTTP/2 are at work
	// at once.
	mu   sync.Mutex
	over bool
}

func (fl *flow) newHTTP(f form) (h *httpFlow, end func()) {
	h = &httpFlow{flow: fl, form: f, secrets: fl.network.secretsOf(fl.f)}
	var cancel func()
	h.ctx, cancel = context.WithCancel(fl.network.ctx)
	return h, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over = true
		fl.closeUps()
	}
}

// serveHTTP serves requests of HTTP/1 until one is denied or a side has ended.
func (fl *flow) serveHTTP(c conn, f form) {
	h, end := fl.newHTTP(f)
	defer end()
	h.c, h.br = c, bufio.NewReaderSize(c, maxHead)
	h.transport = h.newTransport(1, protocolHTTP1)
	patience := fl.network.times.Head
	for {
		head, err := nextHead(c, h.br, fl.network.times.Idle, patience)
		if err != nil {
			if errors.Is(err, errHead) || errors.Is(err, errFrames) {
				h.deny(nil, head, fl.d, reasonOf(err))
			}
			return
		}
		req, err := http.ReadRequest(h.br)
		if err != nil {
			h.deny(nil, head, fl.d, egress.ReasonMalformed)
			return
		}
		if again := h.one(head, req); !again {
			return
		}
	}
}

// The protocols in TLS that is ended here (RFC 7301).
const (
	protocolHTTP1 = "http/1.1"
	protocolHTTP2 = "h2"
)

// newTransport makes the upstream side: a few connections at a time, to the
// flow's host and nowhere else, without redirects.
func (h *httpFlow) newTransport(most int, protocols ...string) *http.Transport {
	dial := func(context.Context, string, string) (net.Conn, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.dial(protocols)
	}
	t := &http.Transport{DialContext: dial, DialTLSContext: dial, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10,
		// as many are kept as there may be: the default of two would have a burst
		// of requests close connections and open others, each with a record
		MaxConnsPerHost: most, MaxIdleConnsPerHost: most, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(slices.Contains(protocols, protocolHTTP2))
	return t
}

// dial opens a connection to the flow's host. The caller holds mu.
func (h *httpFlow) dial(protocols []string) (net.Conn, error) {
	if h.over {
		return nil, net.ErrClosed
	}
	c, err := h.connect(h.ctx, "tcp")
	if err != nil {
		return nil, err
	}
	if h.form != decrypted {
		return c, nil
	}
	t := tls.Client(c, &tls.Config{ServerName: string(h.f.Host.Name), RootCAs: h.network.options.Roots, NextProtos: protocols})
	ctx, cancel := context.WithTimeout(h.ctx, h.network.times.Dial)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", errUpstreamTLS, err)
	}
	return t, nil
}

var errUpstreamTLS = errors.New("cannot trust the host")

// verdict judges a request, whatever it came in.
func (h *httpFlow) verdict(head head, req *http.Request) (path string, d egress.Decision) {
	path, absolute := head.path()
	q := egress.Request{Method: req.Method, Host: head.host, Path: path, Upgrade: upgrades(req)}
	h.mu.Lock()
	d = h.network.judge.DecideRequest(h.f, q)
	h.mu.Unlock()
	if d.Allowed() && head.absolute != (h.form == proxied) || head.absolute && absolute != head.host {
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonHostMismatch
	}
	if d.Allowed() && !expectable(req) {
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonExpect
	}
	if d.Allowed() && h.network.placeholderIn(req, h.secrets) {
		d = secretScope(d)
	}
	return path, d
}

// expectable says whether a request expects nothing, or what is known of
// expectations (RFC 9110, 10.1.1). They are met here and not passed on.
func expectable(req *http.Request) bool {
	for _, v := range req.Header["Expect"] {
		if !strings.EqualFold(strings.TrimSpace(v), "100-continue") {
			return false
		}
	}
	return true
}

// one serves one request. True means that the connection may carry another.
func (h *httpFlow) one(head head, req *http.Request) bool {
	path, d := h.verdict(head, req)
	switch {
	case d.Reason == egress.ReasonHostMismatch && head.absolute && h.form != proxied:
		h.denyWith(req, head, d, http.StatusBadRequest)
		return false
	case !d.Allowed():
		h.deny(req, head, d, d.Reason)
		return false
	}
	out := h.outgoing(req.WithContext(h.ctx))
	if upgrades(req) {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", req.Header.Get("Upgrade"))
	}
	if req.ProtoAtLeast(1, 1) && strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(h.c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	carried := h.watch(out, req, head)
	resp, err := h.transport.RoundTrip(out)
	switch {
	case err != nil && carried():
		refuseHTTP(h.c, statusOf(egress.ReasonSecretScope), secretScope(h.decision()))
		return false
	case err != nil:
		h.deny(req, head, h.decision(), h.failed(err))
		return false
	}
	defer resp.Body.Close()
	h.noteRequest(req, path, d, resp)
	return h.respond(req, resp) && !carried()
}

// watch has the body of a request looked at as it goes out. What is found is
// recorded at once: the answer may be under way by then.
func (h *httpFlow) watch(out, req *http.Request, head head) (carried func() bool) {
	return h.network.watchBody(out, h.secrets, func() {
		h.noteRefusal(req, head, secretScope(h.decision()), statusOf(egress.ReasonSecretScope))
	})
}

// secretScope is a decision against a request that carries a secret of another
// host.
func secretScope(d egress.Decision) egress.Decision {
	d.Verdict, d.Reason = egress.Refuse, egress.ReasonSecretScope
	return d
}

// outgoing is the request for the other side: what belongs to this connection
// stays here.
func (h *httpFlow) outgoing(req *http.Request) *http.Request {
	out := req.Clone(req.Context())
	out.Trailer = req.Trailer // filled when the body has been read
	out.RequestURI = ""
	scheme := "http"
	if h.form == decrypted {
		scheme = "https"
	}
	u := *req.URL
	out.URL = &u
	out.URL.Scheme, out.URL.Host, out.URL.User = scheme, h.hostPort(), nil
	removeHopByHop(out.Header)
	if _, set := out.Header["User-Agent"]; !set {
		out.Header["User-Agent"] = nil // or the library adds its own
	}
	out.Close = false
	if out.Body = (requestBody{req.Body}); req.ContentLength == 0 {
		out.Body = nil
	}
	h.secrets.inject(out.Header)
	return out
}

// hostPort is where requests go.
func (h *httpFlow) hostPort() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return net.JoinHostPort(h.f.Host.String(), fmt.Sprint(h.f.Port))
}

// hopByHop are the headers of one connection (RFC 9110, 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"}

func removeHopByHop(h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

func upgrades(req *http.Request) bool {
	return req.Header.Get("Upgrade") != "" && hasToken(req.Header["Connection"], "upgrade")
}

func hasToken(values []string, want string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), want) {
				return true
			}
		}
	}
	return false
}

// respond writes the answer. True means that the connection may carry another
// request.
func (h *httpFlow) respond(req *http.Request, resp *http.Response) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		h.switched(resp)
		return false
	}
	removeHopByHop(resp.Header)
	h.secrets.scrub(resp)
	resp.Request = req
	resp.Close = resp.Close || req.Close
	if !req.ProtoAtLeast(1, 1) && resp.ContentLength < 0 {
		// it knows no chunks (RFC 9112, 6.1): the end of the connection is the end
		resp.TransferEncoding, resp.Trailer, resp.Close = nil, nil, true
	}
	if err := resp.Write(h.c); err != nil || resp.Close || resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
		return false
	}
	// what of the body was not sent before the answer came would be read as
	// the next request
	_, err := io.CopyN(io.Discard, req.Body, 1<<20)
	return err == io.EOF
}

// switched carries bytes after the protocol was changed.
func (h *httpFlow) switched(resp *http.Response) {
	up, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return
	}
	fmt.Fprintf(h.c, "HTTP/1.1 101 Switching Protocols\r\n")
	_ = resp.Header.Write(h.c)
	_, _ = io.WriteString(h.c, "\r\n")
	go func() {
		_ = carry(up, h.br)
		up.Close()
	}()
	_ = carry(h.c, up)
}

// noteRequest records an allowed request. resp is nil if the program did not
// wait for the answer.
func (h *httpFlow) noteRequest(req *http.Request, path string, d egress.Decision, resp *http.Response) {
	e := h.about()
	e.Verdict, e.Rule, e.Method, e.Host, e.Path = egress.Allow, d.Rule, req.Method, req.Host, path
	if resp == nil {
		h.network.events.note(e)
		return
	}
	e.Status = resp.StatusCode
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		e.Location = u.Host
	}
	e.Scrubs = h.secrets.count(resp)
	h.network.events.note(e)
}

// statusOf is the answer to a denied request.
func statusOf(r egress.Reason) int {
	switch r {
	case egress.ReasonHostMismatch:
		return http.StatusMisdirectedRequest
	case egress.ReasonPathAmbiguous, egress.ReasonSmuggling, egress.ReasonMalformed, egress.ReasonNameInvalid:
		return http.StatusBadRequest
	case egress.ReasonExpect:
		return http.StatusExpectationFailed
	case egress.ReasonMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case egress.ReasonDialFailed, egress.ReasonUnresolved, egress.ReasonUpstreamTLS, egress.ReasonAudit:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

func (h *httpFlow) deny(req *http.Request, head head, d egress.Decision, r egress.Reason) {
	d.Verdict, d.Reason = egress.Refuse, r
	h.denyWith(req, head, d, statusOf(r))
}

func (h *httpFlow) denyWith(req *http.Request, head head, d egress.Decision, status int) {
	h.noteRefusal(req, head, d, status)
	refuseHTTP(h.c, status, d)
}

// about is an event about a request.
func (h *httpFlow) about() egress.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.event(egress.EventRequest)
}

func (h *httpFlow) decision() egress.Decision {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.d
}

// noteRefusal records a denied request.
func (h *httpFlow) noteRefusal(req *http.Request, head head, d egress.Decision, status int) {
	e := h.about()
	e.Reason, e.Class, e.Hint, e.Host, e.Status = d.Reason, d.Class, d.Hint, head.host, status
	e.Path, _ = head.path()
	if req != nil {
		e.Method = req.Method
	}
	h.network.events.deny(e)
}

// failed is why a request got no answer.
func (h *httpFlow) failed(err error) egress.Reason {
	switch {
	case errors.Is(err, errRefused):
		return h.decision().Reason
	case errors.Is(err, errUpstreamTLS):
		return egress.ReasonUpstreamTLS
	case errors.Is(err, errBody) && errors.Is(err, io.ErrUnexpectedEOF):
		return egress.ReasonMalformed
	case errors.Is(err, errBody):
		return egress.ReasonSmuggling
	}
	return egress.ReasonDialFailed
}

// errBody is of a body that ends early, or whose chunks are none.
var errBody = errors.New("cannot read what the program sends")

// requestBody tells its own errors from those of the other side.
type requestBody struct{ io.ReadCloser }

func (b requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errBody, err)
	}
	return n, err
}

// refusalText is what a program reads that does not look at headers.
func refusalText(d egress.Decision) string {
	return "isolate: " + d.Reason.Text() + " (" + string(d.Reason) + ")\n"
}

// refuseHTTP writes a refusal that ends the connection.
func refuseHTTP(c conn, status int, d egress.Decision) {
	body := refusalText(d)
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nX-Isolate-Reason: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), d.Reason, len(body), body)
	linger(c)
}

// How long and how much is read of what a program goes on sending after its
// request was refused, before the connection is closed.
const (
	lingerTime  = time.Second
	lingerBytes = 8 << 20
)

// linger gives the program time to read a last answer: a connection that is
// closed with something unread is reset, and the answer may be lost with it.
func linger(c conn) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
