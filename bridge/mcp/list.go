package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
)

const (
	// maxTools and maxPages bound the list of a server's tools, and maxList its
	// size in bytes: every program gets modules made of it. The lists of servers
	// with a hundred tools have some hundred kilobytes.
	maxTools = 1000
	maxPages = 100
	maxList  = 8 << 20
)

// list asks for all tools.
func list(ctx context.Context, s *session) ([]*sdk.Tool, error) {
	var tools []*sdk.Tool
	cursor := ""
	size := 0
	for range maxPages {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, fmt.Errorf("cannot list its tools: %w", err)
		}
		tools = append(tools, page.Tools...)
		if len(tools) > maxTools {
			return nil, fmt.Errorf("cannot use its tools: they are more than %d", maxTools)
		}
		text, err := json.Marshal(page)
		if err != nil {
			return nil, fmt.Errorf("cannot list its tools: %w", err)
		}
		if size += len(text); size > maxList {
			return nil, fmt.Errorf("cannot use its tools: what it says of them is more than %d bytes", maxList)
		}
		if cursor = page.NextCursor; cursor == "" {
			return tools, nil
		}
	}
	return nil, fmt.Errorf("cannot list its tools: the list has more than %d pages", maxPages)
}

// admit makes tools of those that the configuration lets through.
func (s *Server) admit(list []*sdk.Tool) ([]bridge.Tool, map[string]string, error) {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name
	}
	if err := eachMatches(s.config.Allow, s.config.Deny, names); err != nil {
		return nil, nil, err
	}
	var tools []bridge.Tool
	prints := map[string]string{}
	for _, t := range list {
		if s.config.Allow != nil && !matches(s.config.Allow, t.Name) || matches(s.config.Deny, t.Name) {
			continue
		}
		if _, twice := prints[t.Name]; twice {
			return nil, nil, fmt.Errorf("cannot use tool %q: the server has two of that name", t.Name)
		}
		if t.Name == "" {
			return nil, nil, errors.New("cannot use a tool: it has no name; name those that you want in allow")
		}
		tool, err := s.tool(t)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot use tool %q: %w; deny it to use the others", t.Name, err)
		}
		tools = append(tools, tool)
		prints[t.Name] = fingerprint(t)
	}
	return tools, prints, nil
}

// eachMatches refuses a pattern without a tool: misspelt in Deny, it would let
// through what was to be kept out.
func eachMatches(allow, deny, names []string) error {
	for _, pattern := range slices.Concat(allow, deny) {
		if !slices.ContainsFunc(names, func(name string) bool { return matches([]string{pattern}, name) }) {
			return fmt.Errorf("cannot use pattern %q: it matches no tool; the server has %s", pattern, some(names))
		}
	}
	return nil
}

// some is the beginning of a list of names, for people.
func some(names []string) string {
	const shown = 20
	if len(names) == 0 {
		return "none"
	}
	text := fmt.Sprintf("%q", names[:min(len(names), shown)])
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// tool makes one tool.
func (s *Server) tool(t *sdk.Tool) (bridge.Tool, error) {
	tool := bridge.Tool{
		Name:        s.config.Name + "." + t.Name,
		Description: t.Description,
		Approve:     s.config.Approve,
		Timeout:     s.config.Timeout,
		MaxCalls:    s.config.MaxCalls,
		Source:      "mcp " + s.config.Name,
	}
	switch {
	case s.config.Effects == AllReadOnly,
		s.config.Effects == AsAnnotated && t.Annotations != nil && t.Annotations.ReadOnlyHint:
		tool.Effect = bridge.ReadOnly
	}
	err := bridge.CheckName(tool.Name)
	if err != nil {
		return tool, err
	}
	if tool.Input, err = schema(t.InputSchema); err != nil {
		return tool, fmt.Errorf("its input schema: %w", err)
	}
	if tool.Output, err = schema(t.OutputSchema); err != nil {
		return tool, fmt.Errorf("its output schema: %w", err)
	}
	name, hasOutput := t.Name, t.OutputSchema != nil
	tool.Run = func(ctx context.Context, c bridge.Call) (bridge.Reply, error) {
		return s.call(ctx, name, hasOutput, c)
	}
	return tool, nil
}

// schema reads a schema as the SDK hands it out.
func schema(v any) (*jsonschema.Schema, error) {
	if v == nil {
		return nil, nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if data[0] != '{' && data[0] != 't' && data[0] != 'f' {
		return nil, errors.New("it is no object")
	}
	s := &jsonschema.Schema{}
	return s, json.Unmarshal(data, s)
}

// fingerprint is the same for tools that are the same.
func fingerprint(t *sdk.Tool) string {
	data, err := json.Marshal(struct {
		Name, Description string
		Input, Output     any
		Annotations       *sdk.ToolAnnotations
	}{t.Name, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil {
		return "" // of a schema that cannot be encoded; tool has refused it
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// refused says whether a server answered, and its answer was no.
func refused(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) || strings.Contains(err.Error(), "unsupported protocol version")
}
