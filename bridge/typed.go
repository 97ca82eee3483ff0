package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// NewTool completes t with f as its Run. Where t has no Input or Output they
// are made of In and Out: field names and optional fields by their json tags,
// descriptions by their jsonschema tags. In must be a struct or a map with
// strings as keys. An Out of type any has no schema.
//
// The error of f that is an *Error reaches the program as it is; see Tool.Run.
func NewTool[In, Out any](t Tool, f func(context.Context, In) (Out, error)) (Tool, error) {
	if f == nil {
		return Tool{}, fmt.Errorf("tool %q has no function", t.Name)
	}
	var err error
	if t.Input == nil {
		if t.Input, err = jsonschema.For[In](nil); err != nil {
			return Tool{}, fmt.Errorf("cannot describe the arguments of tool %q: %w", t.Name, err)
		}
		if t.Input.Type != "object" {
			return Tool{}, fmt.Errorf("cannot describe the arguments of tool %q: %v is no struct and no map", t.Name, reflect.TypeFor[In]())
		}
	}
	if t.Output == nil && reflect.TypeFor[Out]() != reflect.TypeFor[any]() {
		if t.Output, err = jsonschema.For[Out](nil); err != nil {
			return Tool{}, fmt.Errorf("cannot describe the result of tool %q: %w", t.Name, err)
		}
		t.derived = t.Output
	}
	t.Run = func(ctx context.Context, c Call) (Reply, error) {
		var in In
		if err := json.Unmarshal(c.Args, &in); err != nil {
			return Reply{}, unfit(err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return Reply{}, err
		}
		value, err := json.Marshal(out)
		if err != nil {
			return Reply{}, fmt.Errorf("cannot encode the result: %w", err)
		}
		return Reply{Value: value}, nil
	}
	_, err = NewSet(t)
	return t, err
}

// unfit is for arguments that the schema takes and the Go type does not: 1.0
// for an int, or a number that is too big for it.
func unfit(err error) *Error {
	if e, ok := err.(*json.UnmarshalTypeError); ok && e.Field != "" {
		return fault(CodeInvalid, "argument "+shown(e.Field)+" cannot be a "+shown(e.Value))
	}
	return fault(CodeInvalid, "the arguments do not fit the tool")
}
