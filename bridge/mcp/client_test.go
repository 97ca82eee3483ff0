package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/tracecontext"
)

// results are what the tools of the good server give.
var results = map[string]string{
	"text":       `"{\"not\": \"parsed\"}"`,
	"nothing":    ``,
	"two":        `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`,
	"image":      `[{"type":"text","text":"see"},{"type":"image","path":"/workspace/image.png","media_type":"image/png","size":4,"sha256":"0"}]`,
	"audio":      `[{"type":"audio","path":"/workspace/audio.wav","media_type":"audio/wav","size":4,"sha256":"0"}]`,
	"resources":  `[{"type":"resource","uri":"file:///a","path":"/workspace/resource.txt","media_type":"text/x-odd","size":4,"sha256":"0"},{"type":"resource","uri":"file:///b","path":"/workspace/resource.bin","media_type":"application/octet-stream","size":2,"sha256":"0"},{"type":"resource_link","uri":"https://a.test/","name":"link"}]`,
	"structured": `{"id":9007199254740993,"b":"isolate-json:x\u003c\u0026"}`,
	"scalar":     `"isolate-json:x"`,
	"declared":   `{"n": 9007199254740993}`,
}

// C 42: every kind of result, over each of the three ways.
func TestResults(t *testing.T) {
	for way, c := range map[string]Config{"stdio": command(t, "good"), "noisy": command(t, "noisy"), "marked": command(t, "marked"), "socket": socket(t), "http json": overHTTP(t, &sdk.StreamableHTTPOptions{JSONResponse: true}), "http events": overHTTP(t, nil)} {
		t.Run(way, func(t *testing.T) {
			s := open(t, c)
			for name, want := range results {
				got, files, err := callFiles(t, s, name, "{}")
				if err != nil || got != want {
					t.Errorf("%s gave %s, %v\nwant %s", name, got, err, want)
				}
				if name == "image" && (len(files) != 1 || files[0] != `image.png image/png "\x89PNG"`) {
					t.Errorf("files %q", files)
				}
			}
			args := `{"a":{"kind":"x"},"big":9007199254740993}`
			if got, err := call(t, s, "echo", args); err != nil || got != fmt.Sprintf("%q", args) {
				t.Errorf("echo gave %s, %v", got, err)
			}
			for name, want := range map[string]string{"error": "bad\uFFFD[2J luck", "mute": "the tool failed and gave no reason"} {
				var told *bridge.Error
				if _, err := call(t, s, name, "{}"); !errors.As(err, &told) || told.Class != bridge.Failed || told.Code != bridge.CodeFailed || told.Message != want {
					t.Errorf("%s: error %v", name, err)
				}
			}
			var told *bridge.Error
			if _, err := call(t, s, "liar", "{}"); !errors.As(err, &told) || told.Code != bridge.CodeBadResult {
				t.Errorf("liar: error %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := find(t, s, "slow").Run(ctx, bridge.Call{Args: []byte("{}")}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("slow: error %v", err)
			}
			if got, err := call(t, s, "text", "{}"); err != nil || got != results["text"] {
				t.Errorf("after a call that was cancelled: %s, %v", got, err)
			}
		})
	}
}

func find(t *testing.T, s *Server, name string) bridge.Tool {
	t.Helper()
	for _, tool := range s.Tools() {
		if tool.Name == s.config.Name+"."+name {
			return tool
		}
	}
	t.Fatalf("no tool %s", name)
	return bridge.Tool{}
}

// socket is the good server at a Unix socket.
func socket(t *testing.T) Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = good().Run(ctx, &sdk.IOTransport{Reader: conn, Writer: conn}) }()
		}
	}()
	t.Cleanup(func() { ln.Close(); cancel(); <-done })
	return Config{Name: "s", Socket: file}
}

const token = "Bearer very-secret-token"

// overHTTP is the good server at a URL that wants a header.
func overHTTP(t *testing.T, o *sdk.StreamableHTTPOptions) Config {
	t.Helper()
	server := good()
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, o)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return Config{Name: "s", URL: web.URL, Header: http.Header{"Authorization": {token}}}
}

// C 42: a hundred tools, listed in pages, allowed and denied by patterns.
func TestHundredTools(t *testing.T) {
	c := command(t, "hundred")
	s := open(t, c)
	if n := len(s.Tools()); n != 100 {
		t.Fatalf("%d tools", n)
	}
	if _, err := bridge.NewSet(s.Tools()...); err != nil {
		t.Error(err)
	}
	if got, err := call(t, s, "tool-42", "{}"); err != nil || got != `"42"` {
		t.Errorf("got %s, %v", got, err)
	}
	c.Allow, c.Deny = []string{"tool-1?", "tool-42"}, []string{"tool-?5"}
	var names []string
	for _, tool := range open(t, c).Tools() {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "s.tool-10 s.tool-11 s.tool-12 s.tool-13 s.tool-14 s.tool-16 s.tool-17 s.tool-18 s.tool-19 s.tool-42" {
		t.Errorf("tools %s", got)
	}
	for _, c := range []Config{{Allow: []string{"toll-1"}}, {Deny: []string{"toll-1"}}} {
		with := command(t, "hundred")
		with.Allow, with.Deny = c.Allow, c.Deny
		if _, err := Open(t.Context(), with); err == nil || !strings.Contains(err.Error(), `cannot use pattern "toll-1": it matches no tool; the server has ["tool-00"`) {
			t.Errorf("error %v", err)
		}
	}
}

func TestWhatToolsSay(t *testing.T) {
	c := command(t, "good")
	c.Approve, c.Timeout, c.MaxCalls = bridge.ApproveWrites, time.Minute, 7
	s := open(t, c)
	got := find(t, s, "text")
	if got.Description != "Gives text." || got.Effect != bridge.ReadOnly || got.Approve != bridge.ApproveWrites || got.Timeout != time.Minute || got.MaxCalls != 7 || got.Source != "mcp s" || got.Output != nil {
		t.Errorf("text is %+v", got)
	}
	if echo := find(t, s, "echo"); echo.Effect != bridge.MayWrite || fmt.Sprint(echo.Input.Properties["a"].Properties["kind"].Enum) != "[x y]" {
		t.Errorf("echo is %+v", echo)
	}
	if out := find(t, s, "declared").Output; out == nil || out.Properties["n"].Type != "integer" {
		t.Errorf("declared returns %+v", out)
	}
	for effects, want := range map[Effects]bridge.Effect{AllReadOnly: bridge.ReadOnly, AllMayWrite: bridge.MayWrite} {
		c.Effects = effects
		for _, tool := range open(t, c).Tools() {
			if tool.Effect != want {
				t.Errorf("%s has effect %v", tool.Name, tool.Effect)
			}
		}
	}
}

// C 42: a server that dies during a call. The call is not repeated, the next
// one starts the server again, and not as fast as it dies.
func TestServerDies(t *testing.T) {
	s := open(t, command(t, "good"))
	var told *bridge.Error
	_, err := call(t, s, "die", "{}")
	if !errors.As(err, &told) || told.Class != bridge.Failed || told.Code != CodeServerGone || strings.Contains(told.Message, "luck") || !strings.Contains(err.Error(), "out of luck") {
		t.Fatalf("error %v, told %+v", err, told)
	}
	if got, err := call(t, s, "text", "{}"); err != nil || got != results["text"] {
		t.Errorf("after a death: %s, %v", got, err)
	}
	if _, err := call(t, s, "die", "{}"); !errors.As(err, &told) || told.Code != CodeServerGone {
		t.Errorf("error %v", err)
	}
	s.next = time.Now().Add(time.Hour)
	if _, err := call(t, s, "text", "{}"); !errors.As(err, &told) || told.Code != CodeServerGone || !strings.Contains(err.Error(), "tried again in") {
		t.Errorf("error %v", err)
	}
	s.next = time.Time{}
	if got, err := call(t, s, "text", "{}"); err != nil || got != results["text"] {
		t.Errorf("after a second death: %s, %v", got, err)
	}
}

// A server that was replaced, and has forgotten its sessions or closed its
// connections, is used on without an error: nothing had been sent, or nothing
// begun.
func TestServerIsReplaced(t *testing.T) {
	var now atomic.Pointer[http.Handler]
	replace := func() {
		server := good()
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
		now.Store(&h)
		t.Cleanup(func() { // it is forgotten, and does not know
			for session := range server.Sessions() {
				session.Close()
			}
		})
	}
	replace()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	defer web.Close()
	s := open(t, Config{Name: "s", URL: web.URL})
	for range 2 {
		replace()
		if got, err := call(t, s, "text", "{}"); err != nil || got != results["text"] {
			t.Fatalf("over HTTP: %s, %v", got, err)
		}
		time.Sleep(2 * retryMin)
	}
	file := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conns := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns <- conn
			go func() { _ = good().Run(context.Background(), &sdk.IOTransport{Reader: conn, Writer: conn}) }()
		}
	}()
	s = open(t, Config{Name: "s", Socket: file})
	for range 2 {
		(<-conns).Close()
		if got, err := call(t, s, "text", "{}"); err != nil || got != results["text"] {
			t.Fatalf("over a socket: %s, %v", got, err)
		}
		time.Sleep(2 * retryMin)
	}
	s.Close()
	(<-conns).Close()
}

// A server learns from a call's _meta where in a trace the call is.
func TestTraced(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for way, c := range map[string]Config{"stdio": command(t, "good"), "http": overHTTP(t, nil)} {
		s := open(t, c)
		for want, ctx := range map[string]context.Context{
			parent + " a=1": tracecontext.With(t.Context(), tracecontext.Parse(parent, "a=1")),
			"<nil> <nil>":   t.Context(),
		} {
			reply, err := s.call(ctx, "meta", false, bridge.Call{ID: "a", Seq: 1, Args: json.RawMessage("{}")})
			var got string
			if err == nil {
				err = json.Unmarshal(reply.Value, &got)
			}
			if err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", way, got, err, want)
			}
		}
		s.Close()
	}
}

// The tools that were admitted are the ones that run.
func TestServerChanges(t *testing.T) {
	s := open(t, command(t, "changes"))
	var told *bridge.Error
	if _, err := call(t, s, "die", "{}"); !errors.As(err, &told) || told.Code != CodeServerGone {
		t.Fatalf("error %v", err)
	}
	if _, err := call(t, s, "text", "{}"); !errors.As(err, &told) || told.Code != CodeToolChanged {
		t.Errorf("error %v", err)
	}
	if got, err := call(t, s, "two", "{}"); err != nil || got != results["two"] {
		t.Errorf("got %s, %v", got, err)
	}
}

// What cannot be decoded is an error of that call alone.
func TestUnreadableResult(t *testing.T) {
	s := open(t, command(t, "blob"))
	var told *bridge.Error
	for range 2 {
		if _, err := call(t, s, "blob", "{}"); !errors.As(err, &told) || told.Code != bridge.CodeBadResult {
			t.Errorf("error %v", err)
		}
	}
	if s.now.isGone() {
		t.Error("the server was given up")
	}
}

func TestServersThatDoNotServe(t *testing.T) {
	for name, want := range map[string]string{
		"dead":     "no configuration at /home/x",
		"silent":   "deadline exceeded",
		"babbling": "no messages",
		"flooding": "too long",
		"pages":    "more than 100 pages",
		"heavy":    "what it says of them",
		"nameless": "it has no name",
		"listed":   "its input schema: it is no object",
		"refusing": "no licence",
		"old":      "unsupported protocol version",
		"texts":    `it answers with the id "1", and the requests have numbers`,
		"idless":   "cannot parse this",
	} {
		t.Run(name, func(t *testing.T) {
			wait := 50 * time.Second
			switch name {
			case "silent":
				wait = time.Second
			case "refusing", "old", "texts", "idless": // and not as long as a server may take to start
				wait = ConnectTime / 2
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if _, err := Open(ctx, command(t, name)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `cannot use MCP server "s"`) {
				t.Errorf("error %v", err)
			}
		})
	}
	for _, c := range []Config{{Name: "s", Socket: "/no/such/socket"}, {Name: "s", URL: "http://127.0.0.1:1/"}, {Name: "s", Command: &Command{Path: "./absent", Dir: "/"}}} {
		if _, err := Open(t.Context(), c); err == nil {
			t.Errorf("%+v was opened", c)
		}
	}
}

// A server that does not end when its input does is made to.
func TestStubborn(t *testing.T) {
	s := open(t, command(t, "stubborn"))
	begun := time.Now()
	s.Close()
	s.Close()
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("Close took %v", took)
	}
	if _, err := call(t, s, "text", "{}"); err == nil {
		t.Error("a closed server was called")
	}
}

// Close ends what runs.
func TestCloseDuringCall(t *testing.T) {
	for way, c := range map[string]Config{"stdio": command(t, "good"), "socket": socket(t), "http": overHTTP(t, nil)} {
		s := open(t, c)
		ended := make(chan error)
		go func() {
			_, err := find(t, s, "slow").Run(context.Background(), bridge.Call{Args: []byte("{}")})
			ended <- err
		}()
		time.Sleep(200 * time.Millisecond)
		s.Close()
		if err := <-ended; err == nil {
			t.Errorf("%s: the call has no error", way)
		}
	}
}

// A redirect is not followed, and no error tells the header or the URL's secret.
func TestHeadersStayHere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer web.Close()
	_, err := Open(t.Context(), Config{Name: "s", URL: web.URL, Header: http.Header{"Authorization": {token}}})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	c := overHTTP(t, nil)
	c.Header = nil
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("error %v", err)
	}
}

func TestChecks(t *testing.T) {
	here := t.TempDir()
	for want, c := range map[string]Config{
		"letters, digits":      {Name: "a.b", Socket: "x"},
		"not 0":                {Name: "a"},
		"not 2":                {Name: "a", Socket: "x", URL: "http://127.0.0.1"},
		"headers are for":      {Name: "a", Socket: "x", Header: http.Header{"A": {"b"}}},
		"not absolute":         {Name: "a", Command: &Command{Path: "x", Dir: "."}},
		"syntax error":         {Name: "a", Socket: "x", Deny: []string{"["}},
		"its URL is not":       {Name: "a", URL: "ftp://x/"},
		"user or password":     {Name: "a", URL: "https://u:p@x/"},
		"read on the way":      {Name: "a", URL: "http://example.com/", Header: http.Header{"A": {"b"}}},
		"write a path with a ": {Name: "a", Command: &Command{Path: "no-such-program", Dir: here}},
	} {
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c, err, want)
		}
	}
}

func TestParseFlag(t *testing.T) {
	for text, want := range map[string]string{
		"a=unix:/run/x.sock":       "{Name:a Command:<nil> Socket:/run/x.sock URL: ",
		"a=http://127.0.0.1:1/mcp": "{Name:a Command:<nil> Socket: URL:http://127.0.0.1:1/mcp ",
		"a=https://x/?a=b":         "{Name:a Command:<nil> Socket: URL:https://x/?a=b ",
	} {
		if c, err := ParseFlag(text); err != nil || !strings.HasPrefix(fmt.Sprintf("%+v", c), want) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	c, err := ParseFlag("a= npx  -y server /tmp")
	if err != nil || c.Command.Path != "npx" || strings.Join(c.Command.Args, "|") != "-y|server|/tmp" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{"", "a", "a=", "a= "} {
		if _, err := ParseFlag(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// The real servers of the protocol's makers, as npm installs them.
func TestNPM(t *testing.T) {
	modules := os.Getenv("ISOLATE_TEST_NPM")
	if modules == "" {
		t.Skip("needs npm servers: ISOLATE_TEST_NPM names no node_modules directory")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("hello from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	bin := filepath.Join(modules, ".bin")
	files := open(t, Config{Name: "files", Command: &Command{Path: filepath.Join(bin, "mcp-server-filesystem"), Args: []string{dir}, Dir: dir, Env: env}, Allow: []string{"read_*", "write_file", "list_directory"}})
	got, err := call(t, files, "read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "note.txt")))
	if err != nil || !strings.Contains(got, "hello from the host") {
		t.Errorf("read_text_file gave %s, %v", got, err)
	}
	var told *bridge.Error
	if _, err := call(t, files, "read_text_file", `{"path":"/etc/passwd"}`); !errors.As(err, &told) || told.Class != bridge.Failed {
		t.Errorf("error %v", err)
	}
	if find(t, files, "read_text_file").Effect != bridge.ReadOnly || find(t, files, "write_file").Effect != bridge.MayWrite {
		t.Error("the effects are not as annotated")
	}
	all := open(t, Config{Name: "all", Command: &Command{Path: filepath.Join(bin, "mcp-server-everything"), Dir: dir, Env: env}})
	if _, err := bridge.NewSet(append(all.Tools(), files.Tools()...)...); err != nil {
		t.Error(err)
	}
	if got, err := call(t, all, "echo", `{"message":"ping"}`); err != nil || !strings.Contains(got, "ping") {
		t.Errorf("echo gave %s, %v", got, err)
	}
	got, put, err := callFiles(t, all, "get-tiny-image", "{}")
	if err != nil || len(put) != 1 || !strings.HasPrefix(put[0], "image.png image/png \"\\x89PNG") || !strings.Contains(got, `"path":"/workspace/image.png"`) {
		t.Errorf("get-tiny-image gave %.300s, %.100q, %v", got, put, err)
	}
	if got, err := call(t, all, "get-structured-content", `{"location":"New York"}`); err != nil || !strings.HasPrefix(got, "{") {
		t.Errorf("get-structured-content gave %s, %v", got, err)
	}
}

// A command that is no MCP server is told as such.
func TestNoServer(t *testing.T) {
	dir := t.TempDir()
	open := func(patience time.Duration, name string, args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		s, err := Open(ctx, Config{Name: "m", Command: &Command{Path: name, Args: args, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}})
		if err == nil {
			s.Close()
		}
		return err
	}
	if err := open(time.Minute, "sh", "-c", "echo no such option >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "the command ended at once (exit status 3), before it spoke MCP") || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("error %v", err)
	}
	if err := open(time.Second, "sleep", "600"); err == nil || !strings.Contains(err.Error(), "it did not answer in time; is it an MCP server?") {
		t.Errorf("error %v", err)
	}
}
