package bridge

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The validator has no limit of its own: a schema that refers to itself on the
// same value overflows its stack, which ends the process and is no panic that
// could be recovered, and one that branches on its way down takes time without
// end for arguments of some hundred bytes. So what it would do is bounded here
// before it is asked.

// maxSteps bounds the check of one call's arguments. A step is a small schema
// held against a small value and takes about a microsecond; a schema with long
// lists or patterns takes more of them, and so does a value for each stepBytes
// of it, which the validator may print or match. 10,000 items with a pattern
// each, the most that a request can hold, take a tenth of it.
const (
	maxSteps  = 1 << 20
	stepBytes = 128
)

// edges are the schemas that a schema applies.
type edges struct {
	same []*jsonschema.Schema // to the same value, where a reference leads included
	each []*jsonschema.Schema // to every item or member
	keys *jsonschema.Schema   // to the names of members
	// own is how many steps the schema itself takes for a small value.
	own int64
}

// costs knows what checking against a schema may take.
type costs struct {
	edges map[*jsonschema.Schema]*edges
	// unfolded is how many schemas there are when every reference is replaced
	// by what it means; without end for recursive ones.
	unfolded int64
}

// newCosts follows all references of a schema that the validator has resolved.
// It refuses those that it cannot follow itself.
func newCosts(root *jsonschema.Schema) (*costs, error) {
	g := &costs{edges: map[*jsonschema.Schema]*edges{}}
	w := walk{at: map[string]*jsonschema.Schema{}, anchors: map[string]*jsonschema.Schema{}}
	w.visit(root, "")
	for _, s := range w.at {
		e, err := w.edges(root, s)
		if err != nil {
			return nil, err
		}
		g.edges[s] = e
	}
	g.unfolded = g.unfold(root, map[*jsonschema.Schema]int64{})
	return g, nil
}

// walk is a way through all parts of a schema.
type walk struct {
	at      map[string]*jsonschema.Schema // by JSON pointer
	anchors map[string]*jsonschema.Schema
	nested  bool // a part has an $id of its own
}

func (w *walk) visit(s *jsonschema.Schema, at string) {
	if s == nil {
		return
	}
	w.at[at] = s
	w.nested = w.nested || at != "" && s.ID != ""
	if s.Anchor != "" {
		w.anchors[s.Anchor] = s
	}
	if s.DynamicAnchor != "" {
		w.anchors[s.DynamicAnchor] = s
	}
	for name, sub := range single(s) {
		w.visit(sub, at+"/"+name)
	}
	for name, list := range map[string][]*jsonschema.Schema{
		"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf, "prefixItems": s.PrefixItems, "items": s.ItemsArray,
	} {
		for i, sub := range list {
			w.visit(sub, at+"/"+name+"/"+strconv.Itoa(i))
		}
	}
	for name, parts := range map[string]map[string]*jsonschema.Schema{
		"$defs": s.Defs, "definitions": s.Definitions, "properties": s.Properties, "patternProperties": s.PatternProperties,
		"dependentSchemas": s.DependentSchemas, "dependencies": s.DependencySchemas,
	} {
		for key, sub := range parts {
			w.visit(sub, at+"/"+name+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
		}
	}
}

// single are the parts of a schema that stand alone, by their keyword.
func single(s *jsonschema.Schema) map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "items": s.Items, "additionalItems": s.AdditionalItems,
		"contains": s.Contains, "unevaluatedItems": s.UnevaluatedItems, "additionalProperties": s.AdditionalProperties,
		"propertyNames": s.PropertyNames, "unevaluatedProperties": s.UnevaluatedProperties, "contentSchema": s.ContentSchema,
	}
}

func (w *walk) edges(root, s *jsonschema.Schema) (*edges, error) {
	e := &edges{keys: s.PropertyNames, own: own(s)}
	e.same = slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else})
	for _, parts := range []map[string]*jsonschema.Schema{s.DependentSchemas, s.DependencySchemas} {
		for _, sub := range parts {
			e.same = append(e.same, sub)
		}
	}
	e.each = []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.UnevaluatedProperties}
	for _, sub := range s.PatternProperties {
		e.each = append(e.each, sub)
	}
	if s.DynamicRef != "" {
		return nil, errors.New("it uses $dynamicRef, which is not supported")
	}
	if s.Ref != "" {
		to, err := w.target(root, s.Ref)
		if err != nil {
			return nil, err
		}
		e.same = append(e.same, to)
	}
	absent := func(s *jsonschema.Schema) bool { return s == nil }
	e.same, e.each = slices.DeleteFunc(e.same, absent), slices.DeleteFunc(e.each, absent)
	return e, nil
}

// own is how many steps a schema takes for a small value, without its parts.
func own(s *jsonschema.Schema) int64 {
	n := 8 + len(s.Enum) + len(s.Required) + len(s.Properties)
	for _, lists := range []map[string][]string{s.DependentRequired, s.DependencyStrings} {
		for _, list := range lists {
			n += len(list)
		}
	}
	n += 2 * instructions(s.Pattern)
	for pattern := range s.PatternProperties {
		n += 2 * instructions(pattern)
	}
	return int64(n / 8)
}

// instructions is how long a pattern is when it is compiled: each byte of a
// text may meet each of them.
func instructions(pattern string) int {
	if pattern == "" {
		return 0
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // the validator has refused it
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

// target is where a reference leads. The validator, which has resolved it, does
// not tell.
func (w *walk) target(root *jsonschema.Schema, ref string) (*jsonschema.Schema, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("cannot read $ref %s: %w", shown(ref), err)
	}
	doc, _, _ := strings.Cut(ref, "#")
	to := w.at[u.Fragment]
	if u.Fragment != "" && u.Fragment[0] != '/' {
		to = w.anchors[u.Fragment]
	}
	if to == nil || w.nested || doc != "" && doc != root.ID {
		return nil, fmt.Errorf("$ref %s cannot be followed; write it as #/$defs/NAME, and no $id inside", shown(ref))
	}
	return to, nil
}

// unfold counts, with math.MaxInt64 for what has no end.
func (g *costs) unfold(s *jsonschema.Schema, known map[*jsonschema.Schema]int64) int64 {
	if n, ok := known[s]; ok {
		return n
	}
	known[s] = math.MaxInt64 // whoever meets it again before it is known
	e := g.edges[s]
	n := e.own
	for _, sub := range slices.Concat(e.same, e.each, s.PrefixItems, s.ItemsArray) {
		n = plus(n, g.unfold(sub, known))
	}
	for _, sub := range s.Properties {
		n = plus(n, g.unfold(sub, known))
	}
	if e.keys != nil {
		n = plus(n, g.unfold(e.keys, known))
	}
	known[s] = n
	return n
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// allows says whether checking v, which has size bytes, against the root stays
// within maxSteps.
func (g *costs) allows(root *jsonschema.Schema, v any, size int) bool {
	// Each unfolded schema meets a value at most once, and the sizes of all
	// values together are no more than the depth allows.
	if g.unfolded <= maxSteps/int64(2*size+1) {
		return true
	}
	c := count{g: g, known: map[pair]int64{}}
	return c.of(root, measure(v)) <= maxSteps
}

// value is an argument as far as steps depend on it.
type value struct {
	steps   int64
	members map[string]*value
	items   []*value
}

// leaf is every value that has no parts and is short.
var leaf = &value{steps: 1}

func measure(v any) *value {
	switch v := v.(type) {
	case string:
		if len(v) >= stepBytes {
			return &value{steps: 1 + int64(len(v))/stepBytes}
		}
	case map[string]any:
		m := &value{steps: 1, members: make(map[string]*value, len(v))}
		size := 0
		for name, e := range v {
			p := measure(e)
			m.members[name] = p
			m.steps += p.steps - 1
			size += len(name) + 16
		}
		m.steps += int64(size / stepBytes)
		return m
	case []any:
		a := &value{steps: 1, items: make([]*value, len(v))}
		for i, e := range v {
			a.items[i] = measure(e)
			a.steps += a.items[i].steps - 1
		}
		a.steps += int64(len(v)) / 16
		return a
	}
	return leaf
}

type pair struct {
	s *jsonschema.Schema
	v *value
}

// count counts the most steps that a check may take. What a schema takes for a
// value is counted once, however often it is reached.
type count struct {
	g     *costs
	known map[pair]int64
}

func (c *count) of(s *jsonschema.Schema, v *value) int64 {
	at := pair{s, v}
	if n, ok := c.known[at]; ok {
		return n
	}
	if len(c.known) > maxSteps {
		return math.MaxInt64
	}
	c.known[at] = math.MaxInt64 // for a schema that comes back to itself on the same value
	e := c.g.edges[s]
	n := e.own * v.steps
	add := func(sub *jsonschema.Schema, v *value) {
		if n <= maxSteps { // else it is decided
			n = plus(n, c.of(sub, v))
		}
	}
	for _, sub := range e.same {
		add(sub, v)
	}
	for name, m := range v.members {
		if sub := s.Properties[name]; sub != nil {
			add(sub, m)
		}
		for _, sub := range e.each {
			add(sub, m)
		}
		if e.keys != nil {
			add(e.keys, measure(name))
		}
	}
	for i, item := range v.items {
		for _, first := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
			if i < len(first) {
				add(first[i], item)
			}
		}
		for _, sub := range e.each {
			add(sub, item)
		}
	}
	c.known[at] = n
	return n
}
