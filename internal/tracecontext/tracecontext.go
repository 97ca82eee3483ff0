// Package tracecontext reads and carries the two values by which the parts of
// one trace find together: traceparent and tracestate of W3C Trace Context.
//
// It decides what is a trace context and nothing else: it makes none, and knows
// no collector. It is for what must not depend on OpenTelemetry: the command,
// the server and the tools. It needs no kernel.
package tracecontext

import (
	"context"
	"strings"
)

// Context is a place in a trace. The zero value is none.
type Context struct {
	// Parent is a traceparent, lower-case hex as the standard wants it.
	Parent string
	// State is a tracestate, printable ASCII; empty if there is none.
	State string
}

// Names of the environment variables, and of the HTTP headers and the fields of
// MCP's _meta, which are spelled alike.
const (
	ParentVariable = "TRACEPARENT"
	StateVariable  = "TRACESTATE"
	ParentField    = "traceparent"
	StateField     = "tracestate"
)

const (
	// parentSize is the length of a traceparent of version 00:
	// version-trace-span-flags.
	parentSize = 2 + 1 + 32 + 1 + 16 + 1 + 2
	// maxState bounds a tracestate: the standard wants 512 bytes passed on, and
	// lets longer ones be dropped.
	maxState = 512
)

// Parse checks what came from outside. What is no traceparent is none, and
// takes its tracestate along; a bad tracestate is dropped alone. Of a later
// version the part that is known is taken, as the standard says.
func Parse(parent, state string) Context {
	if len(parent) < parentSize || !isParent(parent[:parentSize]) {
		return Context{}
	}
	if rest := parent[parentSize:]; rest != "" && (parent[:2] == "00" || rest[0] != '-') {
		return Context{}
	}
	c := Context{Parent: "00" + parent[2:parentSize]}
	if len(state) <= maxState && isState(state) {
		c.State = state
	}
	return c
}

// isParent is about the form of a traceparent of version 00; ff is no version,
// and an id of zeros is none.
func isParent(s string) bool {
	for i := range len(s) {
		dash := i == 2 || i == 35 || i == 52
		hex := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if dash != (s[i] == '-') || !dash && !hex {
			return false
		}
	}
	return s[:2] != "ff" && strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}

// isState lets through what cannot break a header or a log; what it means is
// for who reads it.
func isState(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\t' {
			return false
		}
	}
	return true
}

type key struct{}

// With is ctx at a place in a trace; the zero Context changes nothing.
func With(ctx context.Context, c Context) context.Context {
	if c == (Context{}) {
		return ctx
	}
	return context.WithValue(ctx, key{}, c)
}

// Of is the place that With has set; zero if there is none.
func Of(ctx context.Context) Context {
	c, _ := ctx.Value(key{}).(Context)
	return c
}

// Environ are the variables that tell a program of the place; none if there is
// none.
func (c Context) Environ() []string {
	if c.Parent == "" {
		return nil
	}
	list := []string{ParentVariable + "=" + c.Parent}
	if c.State != "" {
		list = append(list, StateVariable+"="+c.State)
	}
	return list
}

// Fields are the headers or fields that do; nil if there is none.
func (c Context) Fields() map[string]any {
	if c.Parent == "" {
		return nil
	}
	m := map[string]any{ParentField: c.Parent}
	if c.State != "" {
		m[StateField] = c.State
	}
	return m
}
