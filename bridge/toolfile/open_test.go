package toolfile

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/isolate-run/isolate/bridge"
)

// TestMain is also the MCP server that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve-mcp" {
		if err := server(os.Getenv("EXTRA")).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// server has a tool that says what it was given.
func server(text string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "say", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	})
	return s
}

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

const token = "very-secret-token"

func environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "OTHER=not passed on", "TOKEN=old", "TOKEN=" + token}
}

func openFile(t *testing.T, dir, text string) (*Opened, error) {
	t.Helper()
	f, err := Decode("tools.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	o, err := f.Open(ctx, Surroundings{Dir: dir, Environ: environ()})
	if o != nil {
		t.Cleanup(func() { o.Close() })
	}
	return o, err
}

// All four sources in one file, called through a broker.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "bin/env", "#!/bin/sh\nread -r args\nprintf '[\"%s\",\"%s\",\"%s\",\"%s\",%s]' \"$EXTRA\" \"$OTHER\" \"$HOME\" \"$(basename \"$PWD\")\" \"$args\"", 0o755)
	write(t, dir, "env.json", `{"description":"Says.","input":{"type":"object","properties":{"n":{"type":"integer","default":3}}},"read_only":true}`, 0o600)
	write(t, dir, "ask", "#!/bin/sh\ngrep -q '\"tool\":\"asked\"' && echo '{\"decision\":\"allow\",\"args\":{\"n\":9}}'", 0o755)
	ln, err := net.Listen("unix", filepath.Join(dir, "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_ = server("socket").Run(context.Background(), &sdk.IOTransport{Reader: conn, Writer: conn})
		}
	}()
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return server(r.Header.Get("X-Token")) }, &sdk.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(h)
	defer web.Close()
	o, err := openFile(t, dir, `
[tool.env]
command = "./bin/env"
dir = "bin"
schema = "env.json"
env = { EXTRA = "<${TOKEN}>" }
[tool.asked]
command = "bin/env"
schema = "env.json"
read_only = false
approve = "writes"
[mcp.child]
command = "`+self+`"
args = ["serve-mcp"]
env = { EXTRA = "child $$" }
[mcp.sock]
socket = "s.sock"
[mcp.web]
url = "`+web.URL+`"
headers = { X-Token = "${TOKEN}" }
approve = "ask"
[limits]
max_calls = 6
[approve]
ask = "command"
command = "./ask"
`)
	if err != nil {
		t.Fatal(err)
	}
	set, err := bridge.NewSet(o.Tools...)
	if err != nil {
		t.Fatal(err)
	}
	b := bridge.NewBroker(set, o.Options)
	defer b.Close()
	for i, c := range []struct{ tool, want string }{
		{"env", `["<` + token + `>","","/nowhere","bin",{"n":3}]`},
		{"asked", `["","","/nowhere","` + filepath.Base(dir) + `",{"n":9}]`},
		{"child.say", `"child $"`},
		{"sock.say", `"socket"`},
		{"web.say", "denied"},
		{"none", "invalid_arguments"},
		{"env", "limit"},
	} {
		a := b.Do(t.Context(), bridge.Request{ID: string(rune('a' + i)), Tool: c.tool, Args: json.RawMessage("{}"), Via: bridge.ViaFile})
		got := string(a.Value)
		if a.Err != nil {
			got = string(a.Err.Class)
		}
		if got != c.want {
			t.Errorf("%s gave %s, %v, want %s", c.tool, got, a.Err, c.want)
		}
	}
	for _, r := range b.Summary().Calls {
		if text, _ := json.Marshal(r); strings.Contains(string(text), token) {
			t.Errorf("a record has the secret: %s", text)
		}
	}
	if o.Tools[1].Effect != bridge.ReadOnly || o.Tools[0].Effect != bridge.MayWrite {
		t.Errorf("effects %v and %v", o.Tools[0].Effect, o.Tools[1].Effect)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ok", "#!/bin/sh\n", 0o755)
	write(t, dir, "plain", "x", 0o644)
	write(t, dir, "bad.json", "{", 0o644)
	for text, want := range map[string]string{
		"[tool.x]\ncommand = './absent'":                                                        "no such file",
		"[tool.x]\ncommand = './plain'":                                                         "chmod +x",
		"[tool.x]\ncommand = 'no-such-command'":                                                 "write a path with a slash",
		"[tool.x]\ncommand = './ok'\nschema = 'absent.json'":                                    `cannot read schema "absent.json" of [tool.x]: no such file`,
		"[tool.x]\ncommand = './ok'\nschema = 'bad.json'":                                       `cannot read schema "bad.json" of tool "x"`,
		"[tool.x]\ncommand = './ok'\nenv = { A = '${NOT_SET}' }":                                `cannot set variable "A" of [tool.x]: variable "NOT_SET" is not set`,
		"[mcp.x]\nsocket = 'absent'":                                                            `cannot use MCP server "x"`,
		"[mcp.x]\nurl = 'http://example.com/'\nheaders = { A = '${TOKEN}' }":                    "write https",
		"[mcp.x]\nurl = 'http://127.0.0.1:1/${TOKEN}'":                                          `cannot use MCP server "x"`,
		"[mcp.x]\ncommand = './ok'":                                                             `cannot use MCP server "x": the command ended at once (exit status 0)`,
		"[mcp.x]\nsocket = 'absent'\n[mcp.y]\nsocket = 'absent'":                                `cannot use MCP server "y"`,
		"[approve]\nask = 'command'\ncommand = './absent'":                                      "cannot use approval command",
		"[approve]\nask = 'webhook'\nurl = 'https://x/'\nsecret = '${NOT_SET}'":                 "cannot set secret of [approve]",
		"[approve]\nask = 'webhook'\nurl = 'https://x/'\nsecret = 'short'":                      "fewer than 16 bytes",
		"[approve]\nask = 'webhook'\nurl = 'http://example.com/'\nsecret = '${TOKEN}-${TOKEN}'": "write https",
	} {
		o, err := openFile(t, dir, text)
		if err == nil || o != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s\nthe error tells the secret: %v", text, err)
		}
	}
	if _, err := (File{}).Open(t.Context(), Surroundings{Dir: "."}); err == nil {
		t.Error("a relative directory was taken")
	}
}

func TestApprovers(t *testing.T) {
	for text, want := range map[string]bool{"": false, "[approve]\nask = 'nobody'": false, "[approve]\nask = 'terminal'": true, "[approve]\nask = 'webhook'\nurl = 'https://x/'\nsecret = '${TOKEN}'": true} {
		o, err := openFile(t, t.TempDir(), text)
		if err != nil || (o.Options.Approver != nil) != want {
			t.Errorf("%q gave %+v, %v", text, o, err)
		}
	}
}
