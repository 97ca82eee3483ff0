package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/internal/nearest"
	"github.com/isolate-run/isolate/internal/strictjson"
)

// description is what a schema file says of a tool.
type description struct {
	text          string
	input, output *jsonschema.Schema
	readOnly      bool
}

// form is one way to describe a tool: the keys that a file may have, and what
// stands where.
type form struct {
	// marks are keys of which any tells that it is this form.
	marks []string
	// input and output are the keys of the schemas; readOnly is that of a
	// truth, or of an object with readOnlyHint.
	input, output, readOnly string
	// free are keys that say nothing about how a tool is called.
	free []string
}

var forms = []form{
	{marks: []string{"input", "output", "read_only"}, input: "input", output: "output", readOnly: "read_only"},
	{marks: []string{"inputSchema", "outputSchema"}, input: "inputSchema", output: "outputSchema", readOnly: "annotations", free: []string{"name", "title", "icons", "execution", "_meta"}},
	{marks: []string{"input_schema"}, input: "input_schema", free: []string{"name", "type", "cache_control", "strict"}},
	{marks: []string{"parameters"}, input: "parameters", free: []string{"name", "type", "strict"}},
}

func (f form) keys() []string {
	keys := slices.Concat([]string{"description", f.input}, f.free)
	for _, k := range []string{f.output, f.readOnly} {
		if k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// object is a JSON object whose values were not read yet.
type object map[string]json.RawMessage

func readDescription(data []byte) (d description, err error) {
	if len(data) > MaxSchemaBytes {
		return d, fmt.Errorf("it has more than %d bytes", MaxSchemaBytes)
	}
	var keys object
	switch err := json.Unmarshal(data, &keys); {
	case err != nil:
		return d, notJSON(data, err)
	case keys == nil:
		return d, errors.New("it is no JSON object, but null")
	}
	if name, twice := strictjson.Twice(data); twice {
		return d, fmt.Errorf("the name %q stands twice in one object, and what counts is not to be guessed", name)
	}
	if inner, is := keys["function"]; is && string(keys["type"]) == `"function"` {
		if err := known(keys, []string{"type", "function"}); err != nil {
			return d, err
		}
		if keys = nil; json.Unmarshal(inner, &keys) != nil || keys == nil {
			return d, errors.New(`its "function" is no object`)
		}
		return forms[len(forms)-1].read(keys)
	}
	for _, f := range forms {
		if slices.ContainsFunc(f.marks, func(k string) bool { return keys[k] != nil }) {
			return f.read(keys)
		}
	}
	d.input, err = decodeSchema(data, "")
	if err == nil {
		d.text = d.input.Description
	}
	return d, err
}

// notJSON says where a file stops being JSON.
func notJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return errors.New("it is no JSON object")
	}
	before := data[:min(int(syntax.Offset), len(data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	return fmt.Errorf("line %d: it is not JSON: %w", line, err)
}

// read takes a file of the form apart.
func (f form) read(keys object) (d description, err error) {
	if err := known(keys, f.keys()); err != nil {
		return d, err
	}
	if raw, is := keys["description"]; is {
		if json.Unmarshal(raw, &d.text) != nil {
			return d, errors.New(`its "description" is no text`)
		}
	}
	if d.input, err = decodeSchema(keys[f.input], f.input); err != nil {
		return d, err
	}
	if d.output, err = decodeSchema(keys[f.output], f.output); err != nil {
		return d, err
	}
	switch raw := keys[f.readOnly]; {
	case raw == nil:
	case f.readOnly == "annotations":
		var hints struct {
			ReadOnlyHint bool `json:"readOnlyHint"`
		}
		err = json.Unmarshal(raw, &hints)
		d.readOnly = hints.ReadOnlyHint
	default:
		err = json.Unmarshal(raw, &d.readOnly)
	}
	if err != nil {
		return d, fmt.Errorf("its %q cannot be read: %w", f.readOnly, err)
	}
	return d, nil
}

// known refuses keys that are not in the list.
func known(keys object, list []string) error {
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(list, k) {
			continue
		}
		if near, ok := nearest.Word(k, list); ok {
			return fmt.Errorf("it has the unknown key %q; did you mean %q?", k, near)
		}
		return fmt.Errorf("it has the unknown key %q; it may have %s", k, strings.Join(list, ", "))
	}
	return nil
}

// decodeSchema reads a schema that stands at a place in the file; nil if there is
// none.
func decodeSchema(raw json.RawMessage, at string) (*jsonschema.Schema, error) {
	if raw == nil {
		return nil, nil
	}
	v := vetter{}
	v.schema(raw, at)
	if len(v.problems) > 0 {
		return nil, errors.New(strings.Join(v.problems, "; "))
	}
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(raw, s); err != nil {
		if at == "" {
			return nil, err
		}
		return nil, fmt.Errorf("its %q is no schema: %w", at, err)
	}
	return s, nil
}
