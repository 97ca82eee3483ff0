package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/isolate-run/isolate/bridge"
)

// Codes of JSON-RPC errors.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeBusy     = -32000 // the first of those a server may choose
)

// versions are the versions of the protocol that are spoken, the newest first.
// Later ones begin otherwise; their clients are to try initialize when the
// answer to that is "unknown method".
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// message is what a client sends. Answers to requests of ours do not exist, as
// we make none.
type message struct {
	id     json.RawMessage // nil for a notification
	method string
	params json.RawMessage
	bytes  int64
	digest string
}

// maxID bounds the id of a request, in bytes as written.
const maxID = 128

// decode reads a message. Not ok is what is none: the client does not speak
// the protocol, or not only that.
func decode(line []byte) (message, bool) {
	line = bytes.TrimSpace(line)
	wire, ok := fields(line)
	if !ok || !utf8.Valid(line) || string(wire["jsonrpc"]) != `"2.0"` {
		return message{}, false
	}
	id, has := wire["id"]
	if has && !isID(id) {
		return message{}, false
	}
	method := ""
	if m, ok := wire["method"]; ok && json.Unmarshal(m, &method) != nil {
		return message{}, false
	}
	sum := sha256.Sum256(line)
	return message{id, method, wire["params"], int64(len(line)), hex.EncodeToString(sum[:])}, true
}

// fields are the members of a JSON object, by their exact names. Not ok is what
// is none, or has a name twice: another reader may take the other of them, or
// one that is written in capitals, for what was called.
func fields(object []byte) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	m := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, isName := t.(string)
		var v json.RawMessage
		if err != nil || !isName || d.Decode(&v) != nil {
			return nil, false
		}
		if _, twice := m[name]; twice {
			return nil, false
		}
		m[name] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return m, err == io.EOF
}

// isID says whether a JSON value is a string or a whole number.
func isID(v json.RawMessage) bool {
	if len(v) == 0 || len(v) > maxID {
		return false
	}
	if v[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil
}

// message serves one message. Calls of tools go on in goroutines of calls.
func (c *client) message(ctx context.Context, m message, calls *sync.WaitGroup) {
	if m.method != "tools/call" {
		c.vain.Add(1)
	}
	switch {
	case m.method == "": // an answer, though nothing was asked
	case m.id == nil:
		if m.method == "notifications/cancelled" {
			var p struct {
				RequestID json.RawMessage `json:"requestId"`
			}
			if json.Unmarshal(m.params, &p) == nil {
				c.cancel(string(p.RequestID))
			}
		}
	case m.method == "initialize":
		c.send(resultReply(m.id, initialized(m.params)))
	case m.method == "ping":
		c.send(resultReply(m.id, json.RawMessage("{}")))
	case m.method == "tools/list":
		c.send(c.list(m))
	case m.method == "tools/call":
		ctx, cancel := context.WithCancel(ctx)
		if err := c.begin(string(m.id), cancel); err != nil {
			cancel()
			c.vain.Add(1)
			c.send(errorReply(m.id, codeBusy, err.Error()))
			return
		}
		calls.Go(func() {
			defer cancel()
			reply := c.call(ctx, m)
			c.end(string(m.id)) // first: the client may use the id again once it has the answer
			if ctx.Err() == nil {
				c.send(reply)
			}
		})
	default:
		c.send(errorReply(m.id, codeMethod, "unknown method"))
	}
}

// initialized is the answer to initialize.
func initialized(params json.RawMessage) any {
	var p struct {
		Version string `json:"protocolVersion"`
	}
	version := versions[0]
	if json.Unmarshal(params, &p) == nil && slices.Contains(versions, p.Version) {
		version = p.Version
	}
	return map[string]any{
		"protocolVersion": version,
		"capabilities":    map[string]any{"tools": map[string]any{}},
		"serverInfo":      map[string]string{"name": "isolate", "version": "1"},
	}
}

// list is the answer to tools/list. A cursor is the number of a page.
func (c *client) list(m message) []byte {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if m.params != nil && json.Unmarshal(m.params, &p) != nil {
		return errorReply(m.id, codeParams, "the parameters are not those of tools/list")
	}
	n := 0
	if p.Cursor != "" {
		var err error
		if n, err = strconv.Atoi(p.Cursor); err != nil || n < 0 || n >= len(c.pages) {
			return errorReply(m.id, codeParams, "unknown cursor")
		}
	}
	return resultReply(m.id, json.RawMessage(c.pages[n]))
}

// call calls a tool.
func (c *client) call(ctx context.Context, m message) []byte {
	p, ok := fields(m.params)
	name := ""
	if !ok || json.Unmarshal(p["name"], &name) != nil || name == "" {
		c.vain.Add(1)
		return errorReply(m.id, codeParams, "the parameters are not those of tools/call")
	}
	args := p["arguments"]
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	a := c.broker.Do(ctx, bridge.Request{
		ID: c.id(), Tool: name, Args: args, Via: bridge.ViaSocket,
		Bytes: m.bytes, Digest: m.digest, Files: c.files,
	})
	if a.Err != nil {
		c.vain.Add(1)
	}
	switch {
	case a.Err != nil && a.Err.Code == bridge.CodeUnknownTool:
		return errorReply(m.id, codeParams, a.Err.Message)
	case a.Err != nil:
		return resultReply(m.id, failedResult(a.Err))
	}
	return resultReply(m.id, doneResult(a.Value))
}

// block is a text in a result.
type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// callResult is the result of tools/call.
type callResult struct {
	Content    []textContent   `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
	Meta       map[string]any  `json:"_meta,omitempty"`
}

// doneResult shows a value as text, and an object as structured content, too.
func doneResult(v json.RawMessage) callResult {
	if len(v) == 0 {
		v = json.RawMessage("null")
	}
	shown := string(v)
	if v[0] == '"' {
		// A value of the broker is valid JSON.
		_ = json.Unmarshal(v, &shown)
	}
	r := callResult{Content: []textContent{{"text", shown}}}
	if v[0] == '{' {
		r.Structured = v
	}
	return r
}

// ErrorMeta is where a failed result has what the files of the bridge say in
// fields of their own: class, code and details.
const ErrorMeta = "isolate.run/error"

func failedResult(e *bridge.Error) callResult {
	meta := map[string]any{"class": e.Class, "code": e.Code}
	if e.Details != nil {
		meta["details"] = e.Details
	}
	return callResult{Content: []textContent{{"text", e.Message}}, IsError: true, Meta: map[string]any{ErrorMeta: meta}}
}

// resultReply and errorReply make a message.
func resultReply(id json.RawMessage, result any) []byte {
	return encode(id, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func errorReply(id json.RawMessage, code int, text string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return encode(id, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

// encode writes a message on one line. What cannot be encoded is a value that
// is no JSON, which the broker lets nobody answer.
func encode(id json.RawMessage, m map[string]any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(m) != nil {
		return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":` + strconv.Itoa(codeInternal) + `,"message":"the result cannot be encoded"}}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pageSize is how many tools one answer to tools/list has.
const pageSize = 100

// pages are the answers to tools/list.
func pages(tools []bridge.Tool) ([][]byte, error) {
	var out [][]byte
	for first := 0; first == 0 || first < len(tools); first += pageSize {
		part := tools[first:min(first+pageSize, len(tools))]
		list := make([]any, len(part))
		for i, t := range part {
			var err error
			if list[i], err = described(t); err != nil {
				return nil, err
			}
		}
		page := map[string]any{"tools": list}
		if first+pageSize < len(tools) {
			page["nextCursor"] = strconv.Itoa(len(out) + 1)
		}
		data, err := json.Marshal(page)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// described is a tool as tools/list shows it.
func described(t bridge.Tool) (any, error) {
	input := map[string]any{}
	if t.Input != nil {
		data, err := json.Marshal(t.Input)
		if err != nil {
			return nil, fmt.Errorf("cannot show tool %q: %w", t.Name, err)
		}
		if data[0] == '{' { // a schema may be true, too
			if err := json.Unmarshal(data, &input); err != nil {
				return nil, fmt.Errorf("cannot show tool %q: %w", t.Name, err)
			}
		}
	}
	input["type"] = "object" // the protocol wants it said
	d := map[string]any{
		"name": t.Name, "description": strings.ToValidUTF8(t.Description, "\uFFFD"), "inputSchema": input,
		"annotations": map[string]bool{"readOnlyHint": t.Effect == bridge.ReadOnly},
	}
	// It allows only objects as structured results.
	if t.Output != nil && t.Output.Type == "object" {
		d["outputSchema"] = t.Output
	}
	return d, nil
}
