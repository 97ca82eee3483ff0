package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/internal/tracecontext"
)

// Codes of failures that only these tools have; their class is failed.
const (
	// CodeServerGone: the server ended during the call, or before it and could
	// not be reached again.
	CodeServerGone bridge.Code = "server_gone"
	// CodeToolChanged: after it came back the server describes the tool
	// otherwise than when it was admitted.
	CodeToolChanged bridge.Code = "tool_changed"
	// CodeNeedsInput: the tool wants to ask the user something.
	CodeNeedsInput bridge.Code = "needs_input"
)

// maxText bounds the text of an error that a server gives, in bytes.
const maxText = 4 << 10

// failure is an error that tells the program one thing and the host's record
// more.
type failure struct {
	told   *bridge.Error
	detail string
}

func (f *failure) Error() string { return f.detail }
func (f *failure) Unwrap() error { return f.told }

func failed(code bridge.Code, message, detail string) error {
	return &failure{&bridge.Error{Class: bridge.Failed, Code: code, Message: message}, message + ": " + detail}
}

// call calls a tool once. A request that the server cannot have seen, because
// the connection or the session had ended before, is made on a new one.
func (s *Server) call(ctx context.Context, name string, hasOutput bool, c bridge.Call) (bridge.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // Close ends calls
	for again := false; ; again = true {
		now, err := s.current(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return bridge.Reply{}, ctx.Err()
			}
			return bridge.Reply{}, failed(CodeServerGone, "the tool's server cannot be reached; nothing was done", err.Error())
		}
		if now.changed[name] {
			return bridge.Reply{}, failed(CodeToolChanged, "the tool is not what it was when the run began; nothing was done", "the server was connected again and describes it otherwise")
		}
		unsent := &atomic.Bool{}
		result, err := now.CallTool(context.WithValue(ctx, unsentKey{}, unsent), &sdk.CallToolParams{Meta: tracecontext.Of(ctx).Fields(), Name: name, Arguments: c.Args})
		switch {
		case err == nil:
			return reply(ctx, result, hasOutput, c.Files)
		case ctx.Err() == nil && !again && (unsent.Load() || unseen(err)):
			now.settle(ctx)
		default:
			return bridge.Reply{}, now.failure(ctx, s.config.hide(err))
		}
	}
}

// unseen says whether the server cannot have begun what the error is of.
func unseen(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

// settle waits until an ended session is known to have ended.
func (s *session) settle(ctx context.Context) {
	select {
	case <-s.gone:
	case <-ctx.Done():
	case <-time.After(endTime):
	}
}

// failure says what went wrong with a call that has no result.
func (s *session) failure(ctx context.Context, err error) error {
	var wire *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &wire):
		return spoken(wire)
	}
	detail := err.Error()
	if unseen(err) {
		return failed(CodeServerGone, "the tool's server has gone; nothing was done", detail)
	}
	if s.line != nil && !s.line.broken.Load() {
		return failed(bridge.CodeBadResult, "the tool's result cannot be read", detail)
	}
	if s.line != nil {
		_ = s.line.Close() // if only one way is broken, the other is of no use
	}
	if why := s.reason(); why != nil {
		detail += "; " + why.Error()
	}
	return failed(CodeServerGone, "the tool's server gave no answer; whether it did something is not known", detail)
}

// spoken is an error that the server gave in the protocol's own way.
func spoken(e *jsonrpc.Error) error {
	told := &bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: plaintext.Clean(e.Message, maxText)}
	switch e.Code {
	case codeAmbiguous:
		told.Code = bridge.CodeBadResult
	case jsonrpc.CodeInvalidParams:
		told.Class, told.Code = bridge.InvalidArguments, bridge.CodeInvalid
	}
	if told.Message == "" {
		told.Message = fmt.Sprintf("the tool's server gave error %d", e.Code)
	}
	return &failure{told, fmt.Sprintf("the server gave error %d: %s", e.Code, told.Message)}
}

// toolError is a result that says of itself that it is an error.
func toolError(r *sdk.CallToolResult) error {
	var texts []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	text := plaintext.Clean(strings.TrimSpace(strings.Join(texts, "\n")), maxText)
	if text == "" {
		text = "the tool failed and gave no reason"
	}
	return &failure{&bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: text}, text}
}
