package netd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw sends one request of these fields in HTTP/2, and gives its status, or how
// it was ended without one.
func raw(t *testing.T, b *bed, host string, fields [][2]string, body string) string {
	t.Helper()
	conn := tls.Client(b.mustReach(host, 443), &tls.Config{ServerName: host, InsecureSkipVerify: true, NextProtos: []string{protocolHTTP2}})
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	frames := http2.NewFramer(conn, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, frames.WriteSettings(), frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: body == "", EndHeaders: true}))
	if body != "" {
		err = errors.Join(err, frames.WriteData(1, true, []byte(body)))
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return f.ErrCode.String()
		}
	}
}

// What a host of HTTP/1 could read in another way than it was judged does not
// reach it.
func TestHTTP2Smuggling(t *testing.T) {
	var reached atomic.Int64
	b, _ := http2Bed(t, []string{protocolHTTP1}, func(_ http.ResponseWriter, r *http.Request) {
		// one whose body is cut short has not come through
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			reached.Add(1)
		}
	})
	get := func(path string, more ...[2]string) [][2]string {
		return append([][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "api.example"}, {":path", path}}, more...)
	}
	post := func(more ...[2]string) [][2]string {
		f := get("/v1/x", more...)
		f[0][1] = "POST"
		return f
	}
	if got := raw(t, b, "api.example", get("/v1/x?a"), ""); got != "200" || reached.Load() != 1 {
		t.Fatalf("an ordinary request: %s", got)
	}
	for name, x := range map[string]struct {
		fields [][2]string
		body   string
	}{
		"a space in the query":  {get("/v1/x?a b HTTP/1.1"), ""},
		"a space in the path":   {get("/v1/x y?a b"), ""},
		"a line in the method":  {append([][2]string{{":method", "GET /v2 HTTP/1.1"}}, get("/v1/x")[1:]...), ""},
		"a whole URL":           {get("https://api.example/v1/x"), ""},
		"an authority in front": {get("//other.example/v1/x"), ""},
		"two paths":             {get("/v1/x", [2]string{":path", "/v2"}), ""},
		"another host":          {get("/v1/x", [2]string{"host", "open.example"}), ""},
		"a user":                {append([][2]string{{":authority", "u@api.example"}}, append(get("/v1/x")[:2], get("/v1/x")[3])...), ""},
		"a line in a value":     {get("/v1/x", [2]string{"x", "a\r\nb: c"}), ""},
		"a colon in a name":     {get("/v1/x", [2]string{"x:y", "z"}), ""},
		"a space in a name":     {get("/v1/x", [2]string{"content-length ", "5"}), ""},
		"chunks":                {post([2]string{"transfer-encoding", "chunked"}), "0\r\n\r\nGET /v2"},
		"a connection's header": {get("/v1/x", [2]string{"connection", "authorization"}), ""},
		"another protocol":      {get("/v1/x", [2]string{"upgrade", "websocket"}), ""},
		"a tunnel":              {[][2]string{{":method", "CONNECT"}, {":authority", "api.example"}}, ""},
	} {
		_, before := b.world.touched()
		got := raw(t, b, "api.example", x.fields, x.body)
		if _, now := b.world.touched(); got == "200" || reached.Load() != 1 || len(now) > len(before) {
			t.Errorf("%s: %s; %d requests came through, the host was called %d times", name, got, reached.Load()-1, len(now)-len(before))
			reached.Store(1)
		}
	}
	// A body that is too long is met when some of it is on its way. It comes last:
	// the host may be called when the answer is there already.
	if got := raw(t, b, "api.example", post([2]string{"content-length", "3"}), "abcdef"); got == "200" || reached.Load() != 1 {
		t.Errorf("a short length: %s; %d requests came through", got, reached.Load()-1)
	}
}
