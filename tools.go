package isolate

import (
	"context"
	"net"
	"sync"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/stub"
)

// The vocabulary of package bridge, so that most callers import one package.
type (
	// Tool is one thing the host does for a program; see package bridge.
	Tool = bridge.Tool
	// ToolCall is one admitted call, as a tool sees it.
	ToolCall = bridge.Call
	// ToolReply is what a tool answers.
	ToolReply = bridge.Reply
	// ToolError is a failure as the program sees it.
	ToolError = bridge.Error
	// Bridge is the tool bridge of one sandbox, as whoever serves it needs it.
	Bridge = bridge.Site
	// Calls is what is remembered of the calls of a run.
	Calls = bridge.Summary
)

// Tools are what a program may ask the host to do, and how much of it. The
// zero value is an empty set. A Tools may be used by any number of runs, at the
// same time too; a tool is added before the first of them.
type Tools struct {
	// Options bound the calls of a run. Hold is the Runtime's.
	Options bridge.Options
	// Socket serves calls through a Unix socket as well, at the path in the
	// program's environment variable ISOLATE_MCP_SOCKET. Nil means that there
	// is none. mcp.Serve of package bridge/mcp speaks MCP.
	Socket SocketServer

	mu    sync.Mutex
	list  []bridge.Tool
	set   *bridge.Set
	files []stub.File
	err   error
	built bool
}

// SocketServer serves the calls of one sandbox on a listener that nobody else
// uses; what is too big for an answer goes to files. It returns when the
// context or the listener has ended, after it has closed every connection.
type SocketServer func(context.Context, net.Listener, *bridge.Broker, bridge.Files) error

// Add adds a tool. Names and schemas are checked when the first program uses
// the set, or by Check.
func (t *Tools) Add(tool ...Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, tool...)
	t.built = false
}

// AddTool adds a Go function as a tool. In is a struct, or a map with string
// keys; the schemas that tool leaves nil are inferred from In and Out. The
// context ends at the tool's time limit and with the run.
//
// An error that is a *ToolError reaches the program as it is; of any other the
// program learns only that the tool failed.
func AddTool[In, Out any](t *Tools, tool Tool, f func(context.Context, In) (Out, error)) error {
	made, err := bridge.NewTool(tool, f)
	if err != nil {
		return err
	}
	t.Add(made)
	return nil
}

// Check says what is wrong with the tools: names, clashes, schemas.
func (t *Tools) Check() error {
	_, _, err := t.build()
	return err
}

// build makes the checked set and the modules once.
func (t *Tools) build() (*bridge.Set, []stub.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.built {
		return t.set, t.files, t.err
	}
	t.built = true
	if t.set, t.err = bridge.NewSet(t.list...); t.err == nil {
		t.files, t.err = stub.Generate(t.set)
	}
	return t.set, t.files, t.err
}
