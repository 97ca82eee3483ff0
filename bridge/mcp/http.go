package mcp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpTransport is the SDK's, over a client that sends our headers, follows no
// redirects, uses no proxy, and bounds what comes back.
func (c Config) httpTransport() (sdk.Transport, func()) {
	base := &http.Transport{MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 4}
	client := &http.Client{
		Transport: &roundTripper{base, c.Header},
		// A redirect could carry the headers somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &sdk.StreamableClientTransport{
		Endpoint: c.URL, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: 2 * maxMessage,
	}, base.CloseIdleConnections
}

// hidden is an error without the URL, whose path or query may be a secret.
type hidden struct {
	error
	text string
}

func (h hidden) Error() string { return h.text }
func (h hidden) Unwrap() error { return h.error }

// hide takes the URL out of an error's text.
func (c Config) hide(err error) error {
	u, parseErr := url.Parse(c.URL)
	if c.URL == "" || parseErr != nil {
		return err
	}
	shown := u.Scheme + "://" + u.Host + "/…"
	return hidden{err, strings.NewReplacer(u.String(), shown, c.URL, shown).Replace(err.Error())}
}

type roundTripper struct {
	base   http.RoundTripper
	header http.Header
}

// RoundTrip sends a request with our headers.
func (t *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		resp.Body = &events{r: bufio.NewReaderSize(resp.Body, 64<<10), c: resp.Body}
		return resp, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	resp.Body.Close()
	if err == nil && len(data) > maxMessage {
		err = fmt.Errorf("cannot read the server's answer: it has more than %d bytes", maxMessage)
	}
	if err != nil {
		return nil, err
	}
	if kind == "application/json" {
		data = keepNumbers(data)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	return resp, nil
}

// events is a stream of server-sent events in which keepNumbers has done its
// work on every message that stands on one line, as all known servers write
// them.
type events struct {
	r    *bufio.Reader
	c    io.Closer
	rest []byte
	err  error
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		var line []byte
		line, e.err = readLine(e.r, maxMessage)
		if e.err != nil {
			continue
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			line = append([]byte("data: "), keepNumbers(bytes.TrimSpace(data))...)
		}
		e.rest = append(line, '\n')
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *events) Close() error { return e.c.Close() }
