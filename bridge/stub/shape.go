package stub

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A shape is what a schema says about a value, as far as a type can say it.
type shape struct {
	kind  kind
	elem  *shape   // list, dict
	items []*shape // tuple, union
	value string   // literal: JSON
	named *named   // reference
}

type kind int

const (
	anything kind = iota
	null
	boolean
	integer
	number
	text
	literal
	list
	dict
	tuple
	union
	reference
)

// named is a type with a name: an object with known fields, or anything else
// that was defined to be referred to.
type named struct {
	name   string
	about  string
	fields []field // of an object
	object bool
	open   bool   // an object that may have more fields
	alias  *shape // of anything else
}

type field struct {
	name     string
	about    string
	shape    *shape
	required bool
	preset   json.RawMessage // the default; nil if none
}

// Bounds on what is made of a schema; what lies beyond is any value.
const (
	maxDepth  = 16
	maxShapes = 5000 // of one schema
	maxValues = 100  // of one enumeration
)

// A namer gives each type of a module a name of its own.
type namer map[string]bool

func (n namer) unique(name string) string {
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		name = "T" + name
	}
	try := name
	for i := 2; n[try]; i++ {
		try = name + strconv.Itoa(i)
	}
	n[try] = true
	return try
}

// shaper makes shapes from the schemas of one tool.
type shaper struct {
	root  *jsonschema.Schema
	owner string // begins the names of its types
	names namer
	known map[*jsonschema.Schema]*named
	types []*named // in the order of their making
	left  int
}

func newShaper(root *jsonschema.Schema, owner string, names namer) *shaper {
	return &shaper{root: root, owner: owner, names: names, known: map[*jsonschema.Schema]*named{}, left: maxShapes}
}

var any1 = &shape{}

// shape is that of a schema. name is what its type would be called.
func (s *shaper) shape(sc *jsonschema.Schema, name string, depth int) *shape {
	s.left--
	if sc == nil || depth > maxDepth || s.left < 0 {
		return any1
	}
	switch {
	case sc.Ref != "":
		return s.refer(sc.Ref, name, depth)
	case sc.Const != nil:
		return literals([]any{*sc.Const})
	case sc.Enum != nil:
		return literals(sc.Enum)
	case sc.AnyOf != nil && len(sc.Properties) == 0:
		return s.union(sc.AnyOf, name, depth)
	case sc.OneOf != nil && len(sc.Properties) == 0:
		return s.union(sc.OneOf, name, depth)
	case len(sc.AllOf) == 1 && len(sc.Properties) == 0:
		return s.shape(sc.AllOf[0], name, depth+1)
	case sc.Types != nil:
		var items []*shape
		for _, t := range sc.Types {
			items = append(items, s.typed(sc, t, name, depth))
		}
		return join(items)
	case sc.Type != "":
		return s.typed(sc, sc.Type, name, depth)
	case len(sc.Properties) > 0 || len(sc.AllOf) > 0:
		return s.typed(sc, "object", name, depth)
	}
	return any1
}

func (s *shaper) typed(sc *jsonschema.Schema, t, name string, depth int) *shape {
	switch t {
	case "null":
		return &shape{kind: null}
	case "boolean":
		return &shape{kind: boolean}
	case "integer":
		return &shape{kind: integer}
	case "number":
		return &shape{kind: number}
	case "string":
		return &shape{kind: text}
	case "array":
		return s.array(sc, name, depth)
	case "object":
		return s.object(sc, name, depth)
	}
	return any1
}

// array is a tuple only where the schema fixes the length.
func (s *shaper) array(sc *jsonschema.Schema, name string, depth int) *shape {
	prefix, rest := sc.PrefixItems, sc.Items
	if prefix == nil {
		prefix = sc.ItemsArray
		if prefix != nil {
			rest = sc.AdditionalItems
		}
	}
	if len(prefix) == 0 {
		return &shape{kind: list, elem: s.shape(sc.Items, name+"Item", depth+1)}
	}
	var items []*shape
	for i, p := range prefix {
		items = append(items, s.shape(p, name+"Item"+strconv.Itoa(i+1), depth+1))
	}
	whole := sc.MinItems != nil && *sc.MinItems >= len(prefix)
	if whole && (never(rest) || sc.MaxItems != nil && *sc.MaxItems == len(prefix)) {
		return &shape{kind: tuple, items: items}
	}
	if rest == nil && !whole {
		// Nearly every author of such a schema means a tuple.
		return &shape{kind: tuple, items: items}
	}
	if !never(rest) {
		items = append(items, s.shape(rest, name+"Item", depth+1))
	}
	return &shape{kind: list, elem: join(items)}
}

func (s *shaper) object(sc *jsonschema.Schema, name string, depth int) *shape {
	if n := s.known[sc]; n != nil {
		return &shape{kind: reference, named: n}
	}
	parts := s.parts(sc)
	if !slices.ContainsFunc(parts, func(p *jsonschema.Schema) bool { return len(p.Properties) > 0 }) {
		return &shape{kind: dict, elem: s.shape(positive(sc.AdditionalProperties), name+"Value", depth+1)}
	}
	n := &named{name: s.names.unique(name), about: sc.Description, object: true}
	s.known[sc] = n
	s.types = append(s.types, n)
	n.fields, n.open = s.fields(parts, n.name, depth)
	return &shape{kind: reference, named: n}
}

// parts are an object's schema and those it is all of, each once, however many
// ways lead to it.
func (s *shaper) parts(sc *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	seen := map[*jsonschema.Schema]bool{}
	var add func(*jsonschema.Schema)
	add = func(sc *jsonschema.Schema) {
		if sc == nil || seen[sc] {
			return
		}
		seen[sc] = true
		out = append(out, sc)
		if sc.Ref != "" {
			add(s.resolve(sc.Ref))
		}
		for _, p := range sc.AllOf {
			add(p)
		}
	}
	add(sc)
	return out
}

// fields are those of an object: the required ones first.
func (s *shaper) fields(parts []*jsonschema.Schema, name string, depth int) (fields []field, open bool) {
	at := map[string]int{}
	for _, p := range parts {
		open = open || p.AdditionalProperties != nil && !never(p.AdditionalProperties)
		for _, key := range order(p) {
			if _, known := at[key]; known {
				continue
			}
			v := p.Properties[key]
			f := field{name: key, shape: s.shape(v, name+pascal(key), depth+1)}
			if v != nil {
				f.about, f.preset = v.Description, v.Default
			}
			at[key] = len(fields)
			fields = append(fields, f)
		}
	}
	for _, p := range parts {
		for _, key := range p.Required {
			if i, known := at[key]; known {
				fields[i].required = true
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return fields, open
}

// order is the order of an object's properties: as its author gave it, if known.
func order(sc *jsonschema.Schema) []string {
	var keys []string
	for _, key := range sc.PropertyOrder {
		if _, there := sc.Properties[key]; there && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	given := len(keys)
	for key := range sc.Properties {
		if !slices.Contains(keys[:given], key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys[given:])
	return keys
}

func (s *shaper) union(of []*jsonschema.Schema, name string, depth int) *shape {
	var items []*shape
	for i, sc := range of {
		part := name
		if len(of) > 1 && sc != nil && sc.Type != "null" && i > 0 {
			part += strconv.Itoa(i + 1)
		}
		items = append(items, s.shape(sc, part, depth+1))
	}
	return join(items)
}

// refer is the type behind a reference within the tool's own schema.
func (s *shaper) refer(ref, name string, depth int) *shape {
	sc := s.resolve(ref)
	if sc == nil {
		return any1
	}
	if n := s.known[sc]; n != nil {
		return &shape{kind: reference, named: n}
	}
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		name = s.owner + pascal(unescape(ref[i+1:]))
	}
	if len(sc.Properties) > 0 && sc.Ref == "" && sc.Enum == nil && sc.Const == nil {
		return s.object(sc, name, 0)
	}
	n := &named{name: s.names.unique(name), about: sc.Description}
	s.known[sc] = n
	s.types = append(s.types, n)
	// Each definition is shaped once, so its depth begins anew.
	n.alias = s.shape(sc, n.name, min(depth, 1))
	if reaches(n.alias, n, nil) {
		n.alias = any1
	}
	return &shape{kind: reference, named: n}
}

// reaches says whether a type is defined as itself, without anything between.
func reaches(sh *shape, n *named, seen []*named) bool {
	switch {
	case sh == nil:
		return false
	case sh.kind == union:
		return slices.ContainsFunc(sh.items, func(i *shape) bool { return reaches(i, n, seen) })
	case sh.kind == reference && sh.named == n:
		return true
	case sh.kind == reference && !slices.Contains(seen, sh.named):
		return reaches(sh.named.alias, n, append(seen, sh.named))
	}
	return false
}

// resolve finds "#" and "#/$defs/NAME" and the like; nil is anything else.
func (s *shaper) resolve(ref string) *jsonschema.Schema {
	switch {
	case ref == "#":
		return s.root
	case strings.HasPrefix(ref, "#/$defs/"):
		return s.root.Defs[unescape(strings.TrimPrefix(ref, "#/$defs/"))]
	case strings.HasPrefix(ref, "#/definitions/"):
		return s.root.Definitions[unescape(strings.TrimPrefix(ref, "#/definitions/"))]
	}
	return nil
}

func unescape(pointer string) string {
	if u, err := url.PathUnescape(pointer); err == nil {
		pointer = u
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer)
}

// never says whether a schema is "false", which no value fits.
func never(sc *jsonschema.Schema) bool {
	if sc == nil || sc.Not == nil {
		return false
	}
	b, err := json.Marshal(sc)
	return err == nil && string(b) == "false"
}

func positive(sc *jsonschema.Schema) *jsonschema.Schema {
	if never(sc) {
		return nil
	}
	return sc
}

// literals is a union of values; what is no scalar is any value, and of a very
// long list only the kinds are told.
func literals(values []any) *shape {
	var items []*shape
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return any1
		}
		item := &shape{kind: literal, value: string(b)}
		switch base := item.base(); {
		case base == anything:
			return any1
		case base == null || len(values) > maxValues:
			item = &shape{kind: base}
		}
		if !slices.ContainsFunc(items, func(i *shape) bool { return same(i, item) }) {
			items = append(items, item)
		}
	}
	return join(items)
}

// base is the kind of a literal's value.
func (s *shape) base() kind {
	switch s.value[0] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	case '"':
		return text
	case '{', '[':
		return anything
	}
	if strings.Trim(s.value, "-0123456789") == "" {
		return integer
	}
	return number
}

// join is the union of shapes, flat and without repetition.
func join(items []*shape) *shape {
	var flat []*shape
	var add func(*shape)
	add = func(i *shape) {
		switch {
		case i.kind == union:
			for _, j := range i.items {
				add(j)
			}
		case !slices.ContainsFunc(flat, func(f *shape) bool { return same(f, i) }):
			flat = append(flat, i)
		}
	}
	for _, i := range items {
		add(i)
	}
	if slices.ContainsFunc(flat, func(f *shape) bool { return f.kind == anything }) || len(flat) == 0 {
		return any1
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return &shape{kind: union, items: flat}
}

func same(a, b *shape) bool {
	return a.kind == b.kind && a.kind < list && a.value == b.value ||
		a.kind == reference && b.kind == reference && a.named == b.named
}

// decode reads JSON with its numbers as they are written.
func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}
