package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// checker holds a tool's arguments, or its result, against their schema.
type checker struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	// defaults are the parsed defaults of properties, by their schema. Empty
	// if one of them does not fit its own schema: then they are only words.
	defaults map[*jsonschema.Schema]any
	costs    *costs
}

const draft7 = "http://json-schema.org/draft-07/schema#"

// newArgsChecker is newChecker for a schema of arguments, which are an object.
func newArgsChecker(s *jsonschema.Schema) (*checker, error) {
	if s.Type != "" && s.Type != "object" || s.Types != nil && !slices.Contains(s.Types, "object") {
		return nil, errors.New(`its type is not "object"`)
	}
	return newChecker(s)
}

// newChecker resolves a schema once. It works on a copy.
func newChecker(s *jsonschema.Schema) (*checker, error) {
	s = s.CloneSchemas()
	// The validator knows two drafts, by their exact names. Others are read
	// as the newest, which differs in keywords that tools hardly use.
	switch {
	case strings.TrimSuffix(s.Schema, "#") == strings.TrimSuffix(draft7, "#"):
		s.Schema = draft7
	default:
		s.Schema = ""
	}
	c := &checker{schema: s}
	var err error
	if c.resolved, err = resolve(s, &jsonschema.ResolveOptions{}); err != nil {
		return nil, err
	}
	if c.costs, err = newCosts(s); err != nil {
		return nil, err
	}
	if !c.defaultsCheap() {
		return c, nil
	}
	if checked, err := resolve(s, &jsonschema.ResolveOptions{ValidateDefaults: true}); err == nil {
		c.resolved, c.defaults = checked, map[*jsonschema.Schema]any{}
		c.collect(s, map[*jsonschema.Schema]bool{})
	}
	return c, nil
}

// defaultsCheap says whether the defaults can be held against their schemas.
func (c *checker) defaultsCheap() bool {
	for s := range c.costs.edges {
		if s.Default == nil {
			continue
		}
		if v, err := parse(s.Default); err != nil || !c.costs.allows(s, v, len(s.Default)) {
			return false
		}
	}
	return true
}

// resolve is Schema.Resolve, which panics on some schemas.
func resolve(s *jsonschema.Schema, o *jsonschema.ResolveOptions) (r *jsonschema.Resolved, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it cannot be resolved: %v", v)
		}
	}()
	return s.Resolve(o)
}

// collect parses the defaults of s and of what is below it.
func (c *checker) collect(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	if s.Default != nil {
		if v, err := parse(s.Default); err == nil {
			c.defaults[s] = v
		}
	}
	for _, sub := range s.Properties {
		c.collect(sub, seen)
	}
	for _, sub := range s.Defs {
		c.collect(sub, seen)
	}
	for _, sub := range s.Definitions {
		c.collect(sub, seen)
	}
	c.collect(s.Items, seen)
}

// target follows references of the usual local kind.
func (c *checker) target(s *jsonschema.Schema) *jsonschema.Schema {
	for range maxDepth {
		if s == nil || s.Ref == "" {
			return s
		}
		next := c.schema.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
		if next == nil {
			next = c.schema.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
		}
		if s.Ref == "#" {
			next = c.schema
		}
		if next == nil {
			return s
		}
		s = next
	}
	return s
}

// fill puts defaults where optional properties of existing objects are
// missing. The library's own way also makes objects that nobody gave, which
// then lack what is required in them.
func (c *checker) fill(s *jsonschema.Schema, v any) {
	s = c.target(s)
	if s == nil {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.Properties {
			if have, ok := v[name]; ok {
				c.fill(sub, have)
			} else if d, ok := c.defaults[sub]; ok && !slices.Contains(s.Required, name) {
				v[name] = d // never changed: numbers are converted in a copy
			}
		}
	case []any:
		for _, e := range v {
			c.fill(s.Items, e)
		}
	}
}

// check applies defaults to args and returns their canonical form, or why they
// do not fit. A nil checker takes every object.
func (c *checker) check(args map[string]any) (json.RawMessage, *Error) {
	if c == nil {
		return appendCanonical(nil, args), nil
	}
	if len(c.defaults) > 0 {
		c.fill(c.schema, args)
	}
	canonical := appendCanonical(nil, args)
	if !c.costs.allows(c.schema, args, len(canonical)) {
		return nil, fault(CodeInvalid, "the arguments take too many steps to be held against the tool's schema")
	}
	if c.valid(native(args)) {
		return canonical, nil
	}
	at, why := c.explainArgs(args)
	e := fault(CodeInvalid, why)
	if at != "" {
		e.Details = append(appendString([]byte(`{"argument":`), at), '}')
	}
	return nil, e
}

// valid guards against the validator's panics: no schema and no instance of a
// stranger may end the host.
func (c *checker) valid(v any) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return c.resolved.Validate(v) == nil
}
