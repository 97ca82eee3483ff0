package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// serve serves a few tools and returns the socket and the broker.
func serve(t *testing.T, o bridge.Options, more ...bridge.Tool) (string, *bridge.Broker) {
	t.Helper()
	object := &jsonschema.Schema{Type: "object"}
	ints := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"n": {Type: "integer"}}, Required: []string{"n"}}
	tools := append([]bridge.Tool{
		{Name: "a.echo", Description: "Gives \xff it back.", Input: ints, Effect: bridge.ReadOnly, Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) {
			return bridge.Reply{Value: c.Args}, nil
		}},
		{Name: "text", Output: &jsonschema.Schema{Type: "string"}, Run: func(context.Context, bridge.Call) (bridge.Reply, error) {
			return bridge.Reply{Value: json.RawMessage(`"two\nlines <&"`)}, nil
		}},
		{Name: "big", Input: &jsonschema.Schema{}, Output: object, Run: func(context.Context, bridge.Call) (bridge.Reply, error) {
			return bridge.Reply{Value: json.RawMessage(`{"id":9007199254740993}`)}, nil
		}},
		{Name: "fails", Run: func(context.Context, bridge.Call) (bridge.Reply, error) {
			return bridge.Reply{}, &bridge.Error{Class: bridge.Failed, Code: "no_luck", Message: "no luck", Details: json.RawMessage(`{"try":"again"}`)}
		}},
		{Name: "panics", Run: func(context.Context, bridge.Call) (bridge.Reply, error) { panic("/home/secret") }},
		{Name: "asks", Approve: bridge.ApproveAsk, Run: func(context.Context, bridge.Call) (bridge.Reply, error) { return bridge.Reply{}, nil }},
		{Name: "hangs", Run: func(ctx context.Context, _ bridge.Call) (bridge.Reply, error) {
			<-ctx.Done()
			return bridge.Reply{}, ctx.Err()
		}},
	}, more...)
	set, err := bridge.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = bridge.NoLimit
	}
	b := bridge.NewBroker(set, o)
	file := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, b, &memory{}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		b.Close()
	})
	return file, b
}

func dial(t *testing.T, file string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(50 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// The go-sdk's client, as it is, lists and calls.
func TestServeSDK(t *testing.T) {
	file, b := serve(t, bridge.Options{})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	conn := dial(t, file)
	s, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 7 {
		t.Fatalf("listed %+v, %v", list, err)
	}
	first, _ := json.Marshal(list.Tools[0])
	want := `{"annotations":{"idempotentHint":false,"readOnlyHint":true},"description":"Gives � it back.","inputSchema":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"},"name":"a.echo"}`
	if string(first) != want {
		t.Errorf("listed %s\nwant   %s", first, want)
	}
	for _, c := range []struct {
		name string
		args any
		want string
	}{
		{"a.echo", map[string]any{"n": 1}, `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`},
		{"a.echo", map[string]any{"n": "x"}, `"code":"invalid_arguments"`},
		{"text", nil, `{"content":[{"type":"text","text":"two\nlines \u003c\u0026"}]}`},
		{"fails", nil, `{"_meta":{"isolate.run/error":{"class":"failed","code":"no_luck","details":{"try":"again"}}},"content":[{"type":"text","text":"no luck"}],"isError":true}`},
		{"panics", nil, `"code":"tool_crashed"`},
		{"asks", nil, `"class":"denied","code":"nobody_to_ask"`},
	} {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: c.name, Arguments: c.args})
		got, _ := json.Marshal(r)
		if err != nil || !strings.Contains(string(got), c.want) || strings.Contains(string(got), "secret") {
			t.Errorf("%s gave %s, %v\nwant %s", c.name, got, err, c.want)
		}
	}
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "absent"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go whenAccepted(b, 8, cancel)
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "hangs"}); err == nil {
		t.Error("a call that hangs has ended")
	}
	if err := s.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
	// The cancelled call is settled once the notification has come.
	for range 6000 {
		if sum := b.Summary(); sum.Accepted == 8 && len(sum.Calls) == 8 && sum.Calls[7].State != bridge.Running {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	sum := b.Summary()
	for _, r := range sum.Calls {
		if r.Via != bridge.ViaSocket || r.RequestBytes == 0 || len(r.RequestDigest) != 64 || r.State == bridge.Running {
			t.Errorf("record %+v", r)
		}
	}
	if sum.Accepted != 8 {
		t.Errorf("%d calls accepted, want 8", sum.Accepted)
	}
}

// A client that knows nothing of any SDK, in Python.
func TestServePython(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	file, _ := serve(t, bridge.Options{})
	script := `
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
def ask(method, params, id=[0]):
    id[0] += 1
    f.write(json.dumps({"jsonrpc": "2.0", "id": id[0], "method": method, "params": params}) + "\n")
    f.flush()
    m = json.loads(f.readline())
    assert m["id"] == id[0], m
    return m.get("result", m.get("error"))
r = ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
print(r["protocolVersion"], r["capabilities"], r["serverInfo"]["name"])
f.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
print([t["name"] for t in ask("tools/list", {})["tools"]])
print(ask("tools/call", {"name": "a.echo", "arguments": {"n": 9007199254740993}})["structuredContent"])
print(ask("prompts/list", {})["code"], ask("tools/call", {"arguments": {}})["code"], ask("tools/list", {"cursor": "9"})["code"], ask("server/discover", {})["code"])`
	out, err := exec.Command("python3", "-c", script, file).CombinedOutput()
	want := `2024-11-05 {'tools': {}} isolate
['a.echo', 'asks', 'big', 'fails', 'hangs', 'panics', 'text']
{'n': 9007199254740993}
-32601 -32602 -32602 -32601
`
	if err != nil || string(out) != want {
		t.Errorf("printed %s, %v\nwant %s", out, err, want)
	}
}

// What is no message ends that connection, with at most one line to say so,
// and no other.
func TestServeMalformed(t *testing.T) {
	file, b := serve(t, bridge.Options{})
	other := dial(t, file)
	lines := bufio.NewReader(other)
	for name, sent := range map[string]string{
		"nothing":         "\n",
		"no JSON":         "hello\n",
		"a batch":         `[{"jsonrpc":"2.0","id":1,"method":"ping"}]` + "\n",
		"version":         `{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n",
		"null id":         `{"jsonrpc":"2.0","id":null,"method":"ping"}` + "\n",
		"id object":       `{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n",
		"id fraction":     `{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n",
		"long id":         `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"ping"}` + "\n",
		"method number":   `{"jsonrpc":"2.0","id":1,"method":7}` + "\n",
		"not UTF-8":       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n",
		"id twice":        `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}` + "\n",
		"method twice":    `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}` + "\n",
		"capitals":        `{"JSONRPC":"2.0","ID":1,"Method":"ping"}` + "\n",
		"not closed":      `{"jsonrpc":"2.0","id":1,"method":"ping"` + "\n",
		"two on one line": `{"jsonrpc":"2.0","id":1,"method":"ping"} {}` + "\n",
		"deep":            strings.Repeat("[", 500_000) + "\n",
		"too long":        `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", MaxRequest) + `"}` + "\n",
		"never ends":      strings.Repeat("x", MaxRequest+(128<<10)),
	} {
		conn := dial(t, file)
		_, _ = io.WriteString(conn, sent) // may be cut off by the other side
		got, _ := io.ReadAll(conn)
		if n := strings.Count(string(got), "\n"); n > 1 || strings.Contains(string(got), "result") {
			t.Errorf("%s: answered %q", name, got)
		}
		conn.Close()
		fmt.Fprintln(other, `{"jsonrpc":"2.0","id":"still here","method":"ping"}`)
		if line, err := lines.ReadString('\n'); err != nil || line != `{"id":"still here","jsonrpc":"2.0","result":{}}`+"\n" {
			t.Fatalf("after %s the other connection got %q, %v", name, line, err)
		}
	}
	if n := len(b.Summary().Calls); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// Hostile arguments meet the same decoder as those in files.
func TestServeArguments(t *testing.T) {
	file, b := serve(t, bridge.Options{})
	conn := dial(t, file)
	lines := bufio.NewReader(conn)
	for args, want := range map[string]string{
		`{"n":1,"n":2}`: "bad_json",
		`[]`:            "bad_request",
		`"x"`:           "bad_request",
		`{"n":1,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "bad_json",
		`{"n":"\ud800"}`: "bad_json",
		`{"n":1.5}`:      "invalid_arguments",
	} {
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a.echo","arguments":%s}}`+"\n", args)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"code":"`+want+`"`) {
			t.Errorf("%.50s: got %q, %v", args, line, err)
		}
	}
	if s := b.Summary(); s.Refused != 6 || s.Done != 0 {
		t.Errorf("summary %+v", s)
	}
}

// More clients than there is room for are closed, and room comes back.
func TestServeTooManyClients(t *testing.T) {
	file, _ := serve(t, bridge.Options{})
	var conns []net.Conn
	ping := func(c net.Conn) error {
		_, _ = fmt.Fprintln(c, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}
	for range MaxClients {
		c := dial(t, file)
		if err := ping(c); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if err := ping(dial(t, file)); err == nil {
		t.Error("one client too many was served")
	}
	conns[0].Close()
	for range 2000 {
		if ping(dial(t, file)) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("no room came back")
}

// Too many requests at once, an id in use, a client that does not read, one
// that goes away: bounded, and the tools end.
func TestServeFlood(t *testing.T) {
	file, b := serve(t, bridge.Options{Parallel: 2})
	conn := dial(t, file)
	lines := bufio.NewReader(conn)
	call := func(id int) {
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hangs"}}`+"\n", id)
	}
	for id := range maxInFlight {
		call(id)
	}
	call(0)
	call(maxInFlight)
	seen := ""
	for range 2 + maxInFlight {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if seen += line; strings.Contains(seen, "in use") && strings.Contains(seen, "requests at once") {
			break
		}
	}
	if !strings.Contains(seen, "in use") || !strings.Contains(seen, "requests at once") {
		t.Errorf("got %s", seen)
	}
	conn.Close()
	for range 6000 {
		running := false
		for _, r := range b.Summary().Calls {
			running = running || r.State == bridge.Running || r.State == bridge.Received
		}
		if !running {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("calls go on: %+v", b.Summary())
}

func TestServeClientThatDoesNotRead(t *testing.T) {
	large := bridge.Tool{Name: "large", Run: func(context.Context, bridge.Call) (bridge.Reply, error) {
		return bridge.Reply{Value: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}, nil
	}}
	file, b := serve(t, bridge.Options{}, large)
	deaf := dial(t, file)
	for id := range 16 {
		if _, err := fmt.Fprintf(deaf, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large"}}`+"\n", id); err != nil {
			t.Fatal(err)
		}
	}
	other := dial(t, file)
	fmt.Fprintln(other, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text"}}`)
	if line, err := bufio.NewReader(other).ReadString('\n'); err != nil || !strings.Contains(line, "two") {
		t.Errorf("the other client got %q, %v", line, err)
	}
	for b.Summary().Done < 17 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(replyTime + 2*time.Second)
	n, _ := io.Copy(io.Discard, deaf) // what the kernel holds, and the end
	if n >= 16<<20 {
		t.Errorf("a client that did not read got %d bytes", n)
	}
}

// A client that only makes work is slowed down; one that calls is not.
func TestServeBrake(t *testing.T) {
	file, _ := serve(t, bridge.Options{})
	conn := dial(t, file)
	lines := bufio.NewReader(conn)
	many := func(n int, message string) time.Duration {
		begun := time.Now()
		for range n {
			fmt.Fprintln(conn, message)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	many(freeMessages+1, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text"}}`)
	many(freeMessages-1, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	many(2, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"absent"}}`)
	if took := many(100, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); took < 100*minPause {
		t.Errorf("100 more messages took %v", took)
	}
}

// Fifty calls are fifty calls, whatever they come by.
func TestServeCap(t *testing.T) {
	file, b := serve(t, bridge.Options{MaxCalls: 50, Parallel: 10})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			conn := dial(t, file)
			lines := bufio.NewReader(conn)
			for id := range 30 {
				fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"text"}}`+"\n", id)
				if _, err := lines.ReadString('\n'); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if s := b.Summary(); s.Accepted != 50 || s.Done != 50 || s.Refused != 70 {
		t.Errorf("accepted %d, done %d, refused %d", s.Accepted, s.Done, s.Refused)
	}
}

// A hundred and one tools are two pages.
func TestServePages(t *testing.T) {
	var many []bridge.Tool
	for i := range 94 {
		many = append(many, bridge.Tool{Name: fmt.Sprintf("t%02d", i), Run: func(context.Context, bridge.Call) (bridge.Reply, error) { return bridge.Reply{}, nil }})
	}
	file, _ := serve(t, bridge.Options{}, many...)
	conn := dial(t, file)
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	for _, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 101 {
		t.Errorf("%d tools", n)
	}
}

// Our own client side, through our own server side, keeps every value.
func TestServeOpen(t *testing.T) {
	file, _ := serve(t, bridge.Options{})
	s := open(t, Config{Name: "s", Socket: file})
	if got, err := call(t, s, "big", "{}"); err != nil || got != `{"id":9007199254740993}` {
		t.Errorf("big gave %s, %v", got, err)
	}
	if got, err := call(t, s, "text", "{}"); err != nil || got != `"two\nlines <&"` && got != `"two\nlines \u003c\u0026"` {
		t.Errorf("text gave %s, %v", got, err)
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	b := bridge.NewBroker(nil, bridge.Options{})
	defer b.Close()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := Serve(t.Context(), ln, b, &memory{}); err == nil || !strings.Contains(err.Error(), "cannot accept") {
		t.Errorf("error %v", err)
	}
}

// FuzzServe sends anything, and then asks on another connection.
func FuzzServe(f *testing.F) {
	for _, line := range []string{
		"", "{}", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"a.echo","arguments":{"n":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"-1"}}`, "[]\n{}\n", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}`,
	} {
		f.Add([]byte(line))
	}
	set, err := bridge.NewSet(bridge.Tool{Name: "a.echo", Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) { return bridge.Reply{Value: c.Args}, nil }})
	if err != nil {
		f.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "isolate-fuzz-")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		f.Fatal(err)
	}
	b := bridge.NewBroker(set, bridge.Options{MaxCalls: bridge.NoLimit, TotalRequestBytes: 1 << 50, TotalResponseBytes: 1 << 50})
	e, err := newEndpoint(b, &memory{})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.serve(ctx, ln) }()
	f.Cleanup(func() { cancel(); <-done; b.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		e.vain.Store(0) // without the brake
		conn, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			_, _ = conn.Write(append(data, '\n'))
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		lines := bufio.NewScanner(conn)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage
				Result json.RawMessage
				Error  *struct{ Code int }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil || (m.Result == nil) == (m.Error == nil) {
				t.Fatalf("%q was answered %q, %v", data, lines.Text(), err)
			}
		}
	})
}
