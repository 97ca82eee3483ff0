package stub

import (
	"maps"
	"slices"
	"strings"
)

// pythonTypes writes types for Python's checkers and remembers which names it
// used. They are never evaluated, so the newest way of writing serves all.
type pythonTypes struct {
	names map[string]bool
	inner []*named // aliases being written: Python has no recursive ones
	left  int
}

func (p *pythonTypes) sorted() []string { return slices.Sorted(maps.Keys(p.names)) }

// maxType bounds the pieces of one type that is written out.
const maxType = 200

func (p *pythonTypes) of(s *shape) string {
	p.left = maxType
	return p.write(s)
}

func (p *pythonTypes) write(s *shape) string {
	p.left--
	if p.left < 0 || len(p.inner) > maxDepth {
		return "Any"
	}
	switch s.kind {
	case null:
		return "None"
	case boolean:
		return "bool"
	case integer:
		return "int"
	case number:
		return "float"
	case text:
		return "str"
	case literal:
		return p.literals([]*shape{s})
	case list:
		return "list[" + p.write(s.elem) + "]"
	case dict:
		return "dict[str, " + p.write(s.elem) + "]"
	case tuple:
		var items []string
		for _, i := range s.items {
			items = append(items, p.write(i))
		}
		return "tuple[" + strings.Join(items, ", ") + "]"
	case union:
		return p.union(s.items)
	case reference:
		if s.named.object {
			p.names[s.named.name] = true
			return s.named.name
		}
		if slices.Contains(p.inner, s.named) || s.named.alias == nil {
			return "Any"
		}
		p.inner = append(p.inner, s.named)
		defer func() { p.inner = p.inner[:len(p.inner)-1] }()
		return p.write(s.named.alias)
	}
	return "Any"
}

func (p *pythonTypes) union(items []*shape) string {
	var parts []string
	var values []*shape
	none := false
	for _, i := range items {
		switch i.kind {
		case null:
			none = true
		case literal:
			values = append(values, i)
		default:
			parts = append(parts, p.write(i))
		}
	}
	if values != nil {
		parts = append([]string{p.literals(values)}, parts...)
	}
	if none {
		parts = append(parts, "None")
	}
	if slices.Contains(parts, "Any") {
		return "Any"
	}
	var once []string
	for _, part := range parts {
		if !slices.Contains(once, part) {
			once = append(once, part)
		}
	}
	return strings.Join(once, " | ")
}

// literals is Literal[…]. Numbers with a fraction have no such type, and a very
// long one is not worth its place.
func (p *pythonTypes) literals(values []*shape) string {
	var items, out []string
	for _, v := range values {
		value, err := decode([]byte(v.value))
		switch {
		case err != nil:
			return "Any"
		case v.base() == number:
			out = append(out, "float")
		case len(v.value) > 100 && v.base() == integer:
			out = append(out, "int")
		case len(v.value) > 300:
			out = append(out, "str")
		default:
			items = append(items, pythonValue(value))
		}
	}
	if items != nil {
		out = append(out, "Literal["+strings.Join(items, ", ")+"]")
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " | ")
}

// pythonTypes is the module of the types.
func (m *model) pythonTypes() *page {
	p := &page{}
	p.docstring("", "Types of what tools take and give, for type checkers and for reading.")
	p.line("from __future__ import annotations")
	p.line("")
	p.line("from typing import Any, Literal, TypedDict")
	types := &pythonTypes{names: map[string]bool{}}
	for _, n := range m.types {
		if !n.object {
			continue
		}
		var must, may []field
		for _, f := range n.fields {
			if f.required {
				must = append(must, f)
			} else {
				may = append(may, f)
			}
		}
		base := "TypedDict"
		switch {
		case may == nil:
			p.typedDict(n.name, n.about, base, "", must, types)
			continue
		case must != nil:
			base = "_" + n.name + "_required"
			p.typedDict(base, "", "TypedDict", "", must, types)
		}
		p.typedDict(n.name, n.about, base, ", total=False", may, types)
	}
	return p
}

// pythonType is a type in one line, for reading.
func pythonType(n *named) string {
	if !n.object {
		return "" // written where it is used
	}
	types := &pythonTypes{names: map[string]bool{}}
	var keys []string
	for _, f := range n.fields {
		value := types.of(f.shape)
		if !f.required {
			value = "NotRequired[" + value + "]"
		}
		keys = append(keys, python(f.name)+": "+value)
	}
	return n.name + " = {" + strings.Join(keys, ", ") + "}"
}

// typedDict is a class where every key can be an attribute of one, and
// otherwise a base of it made from a dict.
func (p *page) typedDict(name, about, base, total string, fields []field, types *pythonTypes) {
	named := func(f field) bool {
		return clean(f.name) == f.name && !keywords()[f.name] && !strings.HasPrefix(f.name, "__")
	}
	var odd, even []field
	for _, f := range fields {
		if named(f) {
			even = append(even, f)
		} else {
			odd = append(odd, f)
		}
	}
	bases := base
	if odd != nil {
		extra := "_" + strings.Trim(name, "_") + "_keys"
		p.line("")
		p.line("")
		p.line("%s = TypedDict(%s, {", extra, python(extra))
		for _, f := range odd {
			p.line("    %s: %s,", python(f.name), python(types.of(f.shape)))
		}
		p.line("}%s)", total)
		if base == "TypedDict" {
			bases = extra
		} else {
			bases += ", " + extra
		}
	}
	p.line("")
	p.line("")
	p.line("class %s(%s%s):", name, bases, total)
	if about != "" || len(even) == 0 {
		p.docstring("    ", short(about, maxText))
	}
	for _, f := range even {
		comment := ""
		if f.about != "" {
			comment = "  # " + plain(oneLine(f.about))
		}
		p.line("    %s: %s%s", f.name, types.of(f.shape), comment)
	}
}
