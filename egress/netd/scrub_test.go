package netd

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// Wherever a body is cut, no value comes through, nothing else changes, and it
// is as long as before.
func TestScrub(t *testing.T) {
	list := secrets{{header: "Authorization", value: "Bearer s3cr3t", placeholder: "P"}}
	text := "a Bearer s3cr3t b s3cr3t c Bearer s3cr3 s3 s3cr3" + base64.StdEncoding.EncodeToString([]byte("s3cr3t")) + " Bearer"
	want := "a [removed]**** b [remov c Bearer s3cr3 s3 s3cr3[removed Bearer"
	for name, cut := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader} {
		resp := &http.Response{Header: http.Header{"Content-Type": {"text/plain"}, "Echo": {"s3cr3t"}}, Trailer: http.Header{"T": {"s3cr3t"}}, Body: io.NopCloser(cut(strings.NewReader(text)))}
		list.scrub(resp)
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != want || len(got) != len(text) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if resp.Header.Get("Echo") != "[remov" || resp.Trailer.Get("T") != "[remov" {
			t.Errorf("%s: headers %v, trailers %v", name, resp.Header, resp.Trailer)
		}
	}
	resp := &http.Response{Header: http.Header{"Content-Type": {"image/png"}}, Body: io.NopCloser(strings.NewReader(text))}
	list.scrub(resp)
	if got, _ := io.ReadAll(resp.Body); string(got) != text {
		t.Errorf("a picture was changed: %q", got)
	}
}

// What has come is passed on at once: streams of events end when they like.
func TestScrubDoesNotWait(t *testing.T) {
	from, to := io.Pipe()
	resp := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: from}
	secrets{{value: "Bearer s3cr3t"}}.scrub(resp)
	go func() { _, _ = io.WriteString(to, "data: 1\n\n") }()
	b := make([]byte, 64)
	if n, err := resp.Body.Read(b); err != nil || string(b[:n]) != "data: 1\n\n" {
		t.Errorf("got %q, %v", b[:n], err)
	}
}
