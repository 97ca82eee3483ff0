package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

func TestNewSet(t *testing.T) {
	run := echo.Run
	s, err := NewSet(Tool{Name: "b", Run: run}, Tool{Name: "a", Run: run})
	if err != nil || len(s.Tools()) != 2 || s.Tools()[0].Name != "a" {
		t.Errorf("%v, %v", s, err)
	}
	for why, tools := range map[string][]Tool{
		"two tools are named":  {{Name: "a", Run: run}, {Name: "a", Run: run, Source: "mcp x"}},
		"has not 1 to 128":     {{Run: run}},
		"may hold letters":     {{Name: "a b", Run: run}},
		"no Run":               {{Name: "a"}},
		"negative limit":       {{Name: "a", Run: run, Timeout: -1}},
		"its type is not":      {{Name: "a", Run: run, Input: &jsonschema.Schema{Type: "string"}}},
		"cannot use the input": {{Name: "a", Run: run, Input: &jsonschema.Schema{Ref: "http://127.0.0.1:1/x"}}},
		"unknown Effect":       {{Name: "a", Run: run, Effect: 7}},
	} {
		if _, err := NewSet(tools...); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

const orderSchema = `{
	"type": "object", "required": ["id"], "additionalProperties": false,
	"properties": {
		"id": {"type": "integer", "minimum": 1},
		"note": {"type": "string", "maxLength": 5, "default": "none"},
		"tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": true},
		"kind": {"enum": ["eu", "us", null]},
		"customer": {"$ref": "#/$defs/customer"},
		"when": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
		"filter": {"type": "object", "required": ["f"], "properties": {"f": {}, "limit": {"type": "integer", "default": 9007199254740993}}}
	},
	"$defs": {"customer": {"type": "object", "required": ["name"], "properties": {
		"name": {"type": "string"}, "zip": {"type": "string", "default": "0"}, "parent": {"$ref": "#/$defs/customer"}}}}
}`

// C 9: defaults are seen by the tool; what does not fit is refused with the
// argument's path, in our words, and counted, and the tool is not run.
func TestArguments(t *testing.T) {
	var ran atomic.Int64
	b := newBroker(t, Options{}, Tool{Name: "order", Input: schemaOf(t, orderSchema), Run: func(_ context.Context, c Call) (Reply, error) {
		ran.Add(1)
		return Reply{Value: c.Args}, nil
	}})
	good := map[string]string{
		`{"id": 1}`:                            `{"id":1,"note":"none"}`,
		`{"id": 1.0, "note": "x"}`:             `{"id":1.0,"note":"x"}`,
		`{"id": 18446744073709551615}`:         `{"id":18446744073709551615,"note":"none"}`,
		`{"id": 1e30, "note": ""}`:             `{"id":1e30,"note":""}`,
		`{"id": 1, "customer": {"name": "a"}}`: `{"customer":{"name":"a","zip":"0"},"id":1,"note":"none"}`,
		`{"id": 1, "filter": {"f": 1}}`:        `{"filter":{"f":1,"limit":9007199254740993},"id":1,"note":"none"}`,
		`{"id": 1, "kind": null, "when": 5}`:   `{"id":1,"kind":null,"note":"none","when":5}`,
		`{"id": 1, "tags": []}`:                `{"id":1,"note":"none","tags":[]}`,
	}
	for in, want := range good {
		if a := ask(b, "order", in); string(a.Value) != want {
			t.Errorf("%s: %s %v, want %s", in, a.Value, a.Err, want)
		}
	}
	bad := map[string][2]string{
		`{}`:                            {"id", `argument "id" is required`},
		`{"id": "1"}`:                   {"id", `argument "id" must be an integer, not a string`},
		`{"id": 1.5}`:                   {"id", "must be an integer, not a number"},
		`{"id": 0}`:                     {"id", "must be at least 1"},
		`{"id": null}`:                  {"id", "not null"},
		`{"ID": 1, "id": 1}`:            {"ID", `argument "ID" is unknown`},
		`{"id": 1, "note": "toolong"}`:  {"note", "at most 5 characters"},
		`{"id": 1, "tags": ["a", 5]}`:   {"tags[1]", `argument "tags[1]" must be a string`},
		`{"id": 1, "tags": ["a", "B"]}`: {"tags[1]", "must match the pattern"},
		`{"id": 1, "tags": ["a", "a"]}`: {"tags", "same item twice"},
		`{"id": 1, "kind": "uk"}`:       {"kind", `must be one of "eu", "us", null`},
		`{"id": 1, "when": []}`:         {"when", "none of the forms"},
		`{"id": 1, "customer": {}}`:     {"customer.name", "is required"},
		`{"id": 1, "customer": {"name": "a", "parent": {"name": 1}}}`: {"customer.parent.name", "must be a string, not an integer"},
		`{"id": 1, "filter": {}}`:                                     {"filter.f", "is required"},
		`{"id": 1, "a b\u001b": 1}`:                                   {"[\"a b\\x1b\"]", "is unknown"},
	}
	for in, want := range bad {
		a := ask(b, "order", in)
		refused(t, a, CodeInvalid, want[1])
		var d struct{ Argument string }
		if a.Err == nil || json.Unmarshal(a.Err.Details, &d) != nil || d.Argument != want[0] {
			t.Errorf("%s: details %s, want %q", in, a.Err.Details, want[0])
		}
	}
	s := b.Summary()
	if int(ran.Load()) != len(good) || s.Accepted != int64(len(good)+len(bad)) || s.Refused != int64(len(bad)) {
		t.Errorf("ran %d times, %+v", ran.Load(), s)
	}
}

// A schema of a stranger may be odd; it must not end the host or every call.
func TestOddSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"bad default":  `{"type": "object", "properties": {"a": {"type": "string", "default": null}}}`,
		"old draft":    `{"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}`,
		"draft 7":      `{"$schema": "http://json-schema.org/draft-07/schema", "type": "object"}`,
		"no type":      `{"properties": {"a": {"type": "integer"}}}`,
		"self":         `{"type": "object", "properties": {"a": {"$ref": "#"}}}`,
		"endless refs": `{"type": "object", "properties": {"b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}`,
		"true":         `true`,
	} {
		b := newBroker(t, Options{}, Tool{Name: "t", Input: schemaOf(t, schema), Run: echo.Run})
		if a := ask(b, "t", `{}`); string(a.Value) != "{}" {
			t.Errorf("%s: %s, %v", name, a.Value, a.Err)
		}
	}
}

type invoice struct {
	ID    string  `json:"id" jsonschema:"the number on it"`
	Total float64 `json:"total,omitempty"`
}

func TestNewTool(t *testing.T) {
	tool, err := NewTool(Tool{Name: "double"}, func(_ context.Context, in invoice) (invoice, error) {
		if in.ID == "bad" {
			return in, &Error{Failed, "bad_id", "no", nil}
		}
		in.Total *= 2
		return in, nil
	})
	must(t, err)
	if tool.Input.Properties["id"].Description != "the number on it" || tool.Output == nil {
		t.Errorf("schemas %+v, %+v", tool.Input, tool.Output)
	}
	b := newBroker(t, Options{}, tool)
	if a := ask(b, "double", `{"id":"a","total":2.5}`); string(a.Value) != `{"id":"a","total":5}` {
		t.Errorf("%s, %v", a.Value, a.Err)
	}
	refused(t, ask(b, "double", `{"ID":"a"}`), CodeInvalid, `"id" is required`)
	if a := ask(b, "double", `{"id":"bad"}`); a.Err == nil || a.Err.Code != "bad_id" {
		t.Errorf("%v", a.Err)
	}
	whole, err := NewTool(Tool{Name: "whole"}, func(_ context.Context, in struct{ N int8 }) (any, error) { return in.N, nil })
	must(t, err)
	b = newBroker(t, Options{}, whole)
	refused(t, ask(b, "whole", `{"N": 1000}`), CodeInvalid, `"N"`)
	if whole.Output != nil {
		t.Error("an output of type any has a schema")
	}
	if _, err := NewTool(Tool{Name: "x"}, func(context.Context, int) (int, error) { return 0, nil }); err == nil {
		t.Error("arguments of type int")
	}
	if _, err := NewTool(Tool{Name: "x"}, func(context.Context, struct{ C chan int }) (int, error) { return 0, nil }); err == nil {
		t.Error("arguments with a channel")
	}
}

// What a host logs of a tool's error names a class also where the tool did not.
func TestErrorWithoutClass(t *testing.T) {
	if got := (&Error{Code: "negative", Message: "no negatives"}).Error(); got != "failed: no negatives" {
		t.Errorf("%q", got)
	}
}
