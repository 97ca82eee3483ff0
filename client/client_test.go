package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socket is the path of one that nobody listens on yet.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "isolate-c-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// serve answers with h, as a server that behaves does.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	c := New(path)
	t.Cleanup(func() { c.Close(); s.Close(); <-done })
	return c
}

// raw answers each connection with bytes, after the request's head has come, and
// closes it.
func raw(t *testing.T, answer string) *Client {
	t.Helper()
	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			head := make([]byte, 0, 4096)
			for !bytes.Contains(head, []byte("\r\n\r\n")) {
				n, err := conn.Read(head[len(head):cap(head)])
				head = head[:len(head)+n]
				if err != nil {
					break
				}
			}
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	c := New(path)
	t.Cleanup(func() { c.Close(); l.Close(); <-done })
	return c
}

// lines is an answer of so many bytes, of which these come.
func lines(length int, text string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", length, text)
}

func nothing(Event) error { return nil }

// TestUnreachable: that nobody listens is told apart from all else.
func TestUnreachable(t *testing.T) {
	path := socket(t)
	_, err := New(path).Version(t.Context())
	var none *UnreachableError
	if !errors.As(err, &none) || none.Socket != path || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestRefusal: what a server says of a refusal is in the error, and what it
// says in another way does no harm.
func TestRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		body, want string
	}{
		"problems":        {`{"problems":[{"what":"cannot x","rule":"y"},{"what":"cannot z"}]}`, "cannot x: y; cannot z"},
		"none":            {`{}`, "it answers 418"},
		"a page":          {"<html>", "it answers 418"},
		"another kind":    {`{"problems":7}`, "it answers 418"},
		"nothing":         {"", "it answers 418"},
		"too much of one": {`{"problems":[{"what":"` + strings.Repeat("x", 2<<20) + `"}]}`, "it answers 418"},
	} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := client.Stats(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusTeapot || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// TestBadAnswers: an answer that is not what was asked for is an error, never
// an empty success.
func TestBadAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":        "",
		"no HTTP":        "hello\r\n",
		"half a head":    "HTTP/1.1 200 OK\r\nContent-Le",
		"no body":        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"half a body":    lines(100, `{"version":"1"`),
		"a page":         lines(6, "<html>"),
		"another kind":   lines(2, "[]"),
		"a wrong chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
		"a wrong number": lines(23, `{"api":"one","size":""}`),
	} {
		c := raw(t, answer)
		if v, err := c.Version(t.Context()); err == nil {
			t.Errorf("%s: %+v", name, v)
		}
		if _, err := c.PutFile(t.Context(), "s1", "f", 0o600, strings.NewReader("x")); err == nil {
			t.Errorf("%s: a file was put", name)
		}
	}
}

// TestRunEnds: a run has ended when its last event has come, and only then. A
// server that ends before says nothing of the program.
func TestRunEnds(t *testing.T) {
	const started, result = `{"type":"started","id":"r1"}` + "\n", `{"type":"result","command_exit_code":3}` + "\n"
	for name, c := range map[string]struct {
		answer string
		events int
		whole  bool
	}{
		"whole":                {lines(len(started+result), started+result), 2, true},
		"an error":             {lines(17, `{"type":"error"}`+"\n"), 1, true},
		"without a line's end": {lines(len(result)-1, strings.TrimSuffix(result, "\n")), 1, true},
		"nothing":              {"", 0, false},
		"no events":            {lines(0, ""), 0, false},
		"no end":               {lines(len(started), started), 1, false},
		"cut off":              {lines(len(started+result), started), 1, false},
		"cut off in a line":    {lines(len(started+result), started+result[:9]), 1, false},
		"a page":               {lines(6, "<html>"), 0, false},
		"data that is none":    {lines(32, `{"type":"stdout","data":"*****"}`), 0, false},
	} {
		got := 0
		err := raw(t, c.answer).Run(t.Context(), RunRequest{Args: []string{"true"}}, func(Event) error { got++; return nil })
		if (err == nil) != c.whole || got != c.events {
			t.Errorf("%s: %d events, %v", name, got, err)
		}
	}
}

// TestEventsEndLogs: logs may end without a result: the run goes on.
func TestEventsEndLogs(t *testing.T) {
	out := `{"type":"stdout","data":"aGk="}` + "\n"
	got := ""
	err := raw(t, lines(len(out), out)).Logs(t.Context(), "r1", func(e Event) error { got += string(e.Data); return nil })
	if err != nil || got != "hi" {
		t.Errorf("%q, %v", got, err)
	}
	if err := raw(t, lines(len(out)+1, out)).Logs(t.Context(), "r1", nothing); err == nil {
		t.Error("a cut-off log is whole")
	}
}

// TestHugeEvents: the length of a line is not bounded by any buffer here.
func TestHugeEvents(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 8<<20)
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"type":"stdout","data":"%s"}`+"\n", base64.StdEncoding.EncodeToString(data))
		fmt.Fprintln(w, `{"type":"result"}`)
	})
	n := 0
	err := c.Run(t.Context(), RunRequest{}, func(e Event) error { n += len(e.Data); return nil })
	if err != nil || n != len(data) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestSlowServer: the end of the context ends whatever waits, and an error of
// the receiver does; the server learns of both.
func TestSlowServer(t *testing.T) {
	came, gone := make(chan struct{}, 8), make(chan struct{}, 8)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/runs") && r.Method == "POST" {
			fmt.Fprintln(w, `{"type":"started"}`)
			_ = http.NewResponseController(w).Flush()
		}
		came <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	enough := errors.New("enough")
	for name, do := range map[string]func(context.Context) error{
		"a call":      func(ctx context.Context) error { _, err := c.Stats(ctx); return err },
		"a run":       func(ctx context.Context) error { return c.Run(ctx, RunRequest{}, nothing) },
		"a long wait": func(ctx context.Context) error { _, err := c.WaitRun(ctx, "r1"); return err },
		"logs":        func(ctx context.Context) error { return c.FollowLogs(ctx, "r1", nothing) },
		"the receiver": func(context.Context) error {
			return c.Run(t.Context(), RunRequest{}, func(Event) error { return enough })
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		go func() { <-came; cancel(); close(asked) }()
		err := do(ctx)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case <-gone:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the server does not learn of it", name)
		}
		<-asked
	}
}

// TestRequests: what is asked for is what comes, names and ranges as they are.
func TestRequests(t *testing.T) {
	var method, path, length string
	var body map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		method, path, length = r.Method, r.URL.RequestURI(), r.Header.Get("Range")
		body = nil
		_ = json.NewDecoder(r.Body).Decode(&body)
		_, _ = io.WriteString(w, `{}`)
	})
	ctx := t.Context()
	for want, do := range map[string]func() error{
		"GET /v1/runs/a%2F..%3Fb":                     func() error { _, err := c.GetRun(ctx, "a/..?b"); return err },
		"POST /v1/runs/r1/kill":                       func() error { return c.KillRun(ctx, "r1") },
		"DELETE /v1/runs/r1":                          func() error { return c.ForgetRun(ctx, "r1") },
		"PUT /v1/sandboxes/s1/files/a%20b/c?mode=755": func() error { _, err := c.PutFile(ctx, "s1", "a b/c", 0o755, strings.NewReader("x")); return err },
		"GET /v1/sandboxes/s1/list/":                  func() error { _, err := c.ListFiles(ctx, "s1", ""); return err },
	} {
		if err := do(); err != nil || method+" "+path != want {
			t.Errorf("%s %s, %v, want %s", method, path, err, want)
		}
	}
	if _, err := c.Start(ctx, RunRequest{Args: []string{"x"}}); err != nil || body["detach"] != true {
		t.Errorf("%v, %v", body, err)
	}
	f, err := c.GetFile(ctx, "s1", "f", 7)
	if err != nil || length != "bytes=7-" {
		t.Errorf("%q, %v", length, err)
	}
	f.Close()
}

// TestPathsOfFiles says of a path that HTTP would take for another one that it
// is none, before anything is sent.
func TestPathsOfFiles(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	for _, path := range []string{"/etc/x", "../x", "a/../x", "./x", "a//x", "x/", "/"} {
		_, put := c.PutFile(t.Context(), "s1", path, 0o644, strings.NewReader("x"))
		_, got := c.GetFile(t.Context(), "s1", path, 0)
		_, listed := c.ListFiles(t.Context(), "s1", path)
		for _, err := range []error{put, got, listed} {
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].Remedy == "" {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
}

// TestRunsInText says of bytes that JSON would change that they cannot be sent,
// and does not show the value of a variable.
func TestRunsInText(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	for _, q := range []RunRequest{
		{Args: []string{"cat", "/a\xff"}}, {Args: []string{"true"}, Dir: "\xff"}, {Args: []string{"true"}, Out: "/\xff"},
		{Args: []string{"true"}, Env: map[string]string{"A": "secret\xff"}}, {Args: []string{"true"}, Policy: "\xff"},
		{Args: []string{"true"}, In: []Input{{Source: "/\xff"}}}, {Args: []string{"true"}, In: []Input{{Source: "/a", Target: "\xff"}}},
	} {
		none := func(Event) error { return nil }
		_, started := c.Start(t.Context(), q)
		for _, err := range []error{c.Run(t.Context(), q, none), c.RunIn(t.Context(), "s1", q, none), started} {
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) != 1 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}
}
