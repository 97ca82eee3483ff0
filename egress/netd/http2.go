package netd

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

const (
	// maxStreams is how many requests of one HTTP/2 connection may be at work,
	// what servers commonly allow; maxRequests those of all of a sandbox's.
	maxStreams  = 100
	maxRequests = 1024
	// maxUpstream is how many connections such a flow may have to a host that
	// speaks HTTP/1 only, which is what browsers open.
	maxUpstream = 6
)

// http2Flow serves HTTP/2 on TLS that was ended here. Each request is judged as
// one of HTTP/1 is; the server underneath is the standard library's.
type http2Flow struct {
	*httpFlow
	first sync.Mutex // held while the host is asked what it speaks
	up    *http.Transport
	work  sync.WaitGroup
}

// serveHTTP2 serves requests until a side has ended.
func (fl *flow) serveHTTP2(t *tls.Conn) {
	h, end := fl.newHTTP(decrypted)
	h2 := &http2Flow{httpFlow: h}
	l := &oneConn{conn: t, done: make(chan struct{})}
	s := &http.Server{
		Handler: h2, MaxHeaderBytes: maxHead, IdleTimeout: fl.network.times.Idle, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext: func(net.Listener) context.Context { return h.ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.Close()
			}
		},
	}
	s.Protocols.SetHTTP2(true)
	_ = s.Serve(l)
	end()
	h2.work.Wait()
}

// oneConn is a listener that has one connection, and ends with it.
type oneConn struct {
	mu   sync.Mutex
	conn net.Conn
	once sync.Once
	done chan struct{}
}

// Accept gives the connection, then waits for Close.
func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close ends the listener, not the connection.
func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is nowhere.
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// enter counts a request in, unless the flow is over.
func (h *http2Flow) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.work.Add(1)
	return true
}

// upstream is the other side. The first request finds out what the host
// speaks: one connection is enough if that is HTTP/2.
func (h *http2Flow) upstream() (*http.Transport, error) {
	h.first.Lock()
	defer h.first.Unlock()
	if h.up != nil {
		return h.up, nil
	}
	protocols := []string{protocolHTTP2, protocolHTTP1}
	h.mu.Lock()
	c, err := h.dial(protocols)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	most := maxUpstream
	if c.(*tls.Conn).ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		most = 1
	}
	h.up = h.newTransport(most, protocols...)
	again := h.up.DialTLSContext
	waiting := make(chan net.Conn, 1)
	waiting <- c
	h.up.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case c := <-waiting:
			return c, nil
		default:
			return again(ctx, network, addr)
		}
	}
	return h.up, nil
}

// ServeHTTP serves one request.
func (h *http2Flow) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !h.enter() {
		return
	}
	defer h.work.Done()
	head := head{target: req.RequestURI, host: req.Host}
	path, d := h.verdict(head, req)
	switch {
	case !d.Allowed():
	case !agreeing(req):
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonHostMismatch
	case strings.Contains(req.RequestURI, " "):
		// a host of HTTP/1 would find another end of the target in its line
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonMalformed
	}
	leave, free := admit(h.network.requests)
	if !free {
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonLimitFlows
	} else {
		defer leave()
	}
	if !d.Allowed() {
		h.refuse(w, req, head, d)
		return
	}
	out := h.outgoing(req)
	if hasToken(req.Header["Te"], "trailers") {
		out.Header.Set("Te", "trailers") // what gRPC asks for
	}
	carried := h.watch(out, req, head)
	up, err := h.upstream()
	var resp *http.Response
	if err == nil {
		resp, err = up.RoundTrip(out)
	}
	switch {
	case err != nil && carried():
		h.sayRefused(w, secretScope(d))
		return
	case err != nil && req.Context().Err() != nil:
		h.noteRequest(req, path, d, nil)
		return
	case err != nil:
		d := h.decision()
		d.Verdict, d.Reason = egress.Refuse, h.failed(err)
		h.refuse(w, req, head, d)
		return
	}
	defer resp.Body.Close()
	h.noteRequest(req, path, d, resp)
	h.answer(w, resp)
}

// agreeing tells whether a request that has a Host header beside its authority
// names the same host in both.
func agreeing(req *http.Request) bool {
	for _, host := range req.Header["Host"] {
		if host != req.Host {
			return false
		}
	}
	return true
}

// refuse answers a denied request; the connection takes no more.
func (h *http2Flow) refuse(w http.ResponseWriter, req *http.Request, head head, d egress.Decision) {
	h.noteRefusal(req, head, d, statusOf(d.Reason))
	h.sayRefused(w, d)
}

func (h *http2Flow) sayRefused(w http.ResponseWriter, d egress.Decision) {
	w.Header().Set("X-Isolate-Reason", string(d.Reason))
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Connection", "close")
	w.WriteHeader(statusOf(d.Reason))
	_, _ = io.WriteString(w, refusalText(d))
}

// answer passes an answer on as it comes, with its trailers.
func (h *http2Flow) answer(w http.ResponseWriter, resp *http.Response) {
	removeHopByHop(resp.Header)
	h.secrets.scrub(resp)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w)
	if resp.ContentLength != 0 { // or head and end are to come as one, as they did
		_ = flush.Flush()
	}
	if err := carry(flushed{w, flush}, resp.Body); err != nil {
		// not a whole answer: the program is to see that
		_ = flush.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	for name, values := range resp.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// flushed is an answer that is sent as it is written: calls may go both ways
// at once.
type flushed struct {
	w  io.Writer
	to *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.to.Flush()
	}
	return n, err
}
