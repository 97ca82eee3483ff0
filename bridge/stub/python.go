package stub

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed all:sdk
var sdk embed.FS

// page is a file in the making.
type page struct{ strings.Builder }

// line adds a line; every argument must have been made by an encoder.
func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
}

func (m *model) python() (files []File, err error) {
	const dir = PythonPath + "/isolate_tools/"
	add := func(name string, p *page) {
		files = append(files, File{Path: dir + name, Mode: 0o644, Content: []byte(p.String())})
	}
	for _, name := range []string{"errors.py", "_bridge.py", "_helpers.py"} {
		b, err := sdk.ReadFile("sdk/python/" + name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: dir + name, Mode: 0o644, Content: b})
	}
	add("py.typed", &page{})
	add("types.py", m.pythonTypes())
	add("_index.py", m.pythonIndex())
	add("__init__.py", m.pythonPackage(direct))
	add("aio/__init__.py", m.pythonPackage(awaited))
	for _, g := range m.groups {
		add(g.name+".py", g.python(direct))
		add("aio/"+g.name+".py", g.python(awaited))
	}
	return files, nil
}

// twin is one of the two forms of a Python module.
type twin struct {
	about    string
	def      string // how a function begins
	call     string // and what it does
	above    string // where the runtime is
	call1    string // the names of the runtime for this form
	map1     string
	internal string
}

var (
	direct = twin{
		about: "Tools of the host, as functions that return the result.\n\nhelp(FUNCTION) says more about each; search_tools(TEXT) finds them.\nErrors are exceptions: see isolate_tools.errors.",
		def:   "def", call: "return _call", above: ".", call1: "call", map1: "map", internal: "_call",
	}
	awaited = twin{
		about: "Tools of the host, as coroutines for asyncio.",
		def:   "async def", call: "return await _acall", above: "..", call1: "acall", map1: "amap", internal: "_acall",
	}
)

// pythonPackage is the flat module, which loads the others when they are used.
func (m *model) pythonPackage(w twin) *page {
	p := &page{}
	p.docstring("", w.about)
	p.line("")
	p.line("# What is loaded when it is used: where it is and what it is called there.")
	p.line("_HOME = {")
	p.line("    \"call\": (%s, %s),", python(w.above+"_bridge"), python(w.call1))
	p.line("    \"map\": (%s, %s),", python(w.above+"_helpers"), python(w.map1))
	p.line("    \"search_tools\": (%s, \"search_tools\"),", python(w.above+"_helpers"))
	for _, e := range exceptions {
		p.line("    %s: (%s, %s),", python(e), python(w.above+"errors"), python(e))
	}
	for _, t := range m.tools {
		p.line("    %s: (%s, %s),", python(t.id), python("."+t.group.name), python(t.short))
	}
	p.line("}")
	var modules []string
	if w == direct {
		modules = append(modules, `"aio"`, `"errors"`, `"types"`)
	}
	for _, g := range m.groups {
		if g.name != host {
			modules = append(modules, python(g.name))
		}
	}
	p.line("_MODULES = [%s]", strings.Join(modules, ", "))
	p.line("")
	p.line("TYPE_CHECKING = False")
	p.line("if TYPE_CHECKING:")
	p.line("    from %s_bridge import %s as call", w.above, w.call1)
	p.line("    from %s_helpers import %s as map, search_tools", w.above, w.map1)
	p.line("    from %serrors import %s", w.above, strings.Join(exceptions, ", "))
	for _, g := range m.groups {
		for _, t := range g.tools {
			p.line("    from .%s import %s as %s", g.name, t.short, t.id)
		}
	}
	p.line("")
	p.line("# map stays out: a star import must not take the place of the builtin.")
	all := append([]string{"call", "search_tools"}, exceptions...)
	for _, t := range m.tools {
		all = append(all, t.id)
	}
	p.line("__all__ = [")
	for _, id := range all {
		p.line("    %s,", python(id))
	}
	p.line("]")
	p.line("%s", lazy)
	return p
}

var exceptions = []string{"ToolError", "ToolDenied", "ToolInvalidArguments", "ToolTimeout", "ToolLimit", "ToolFailed", "BridgeClosed"}

const lazy = `

def __getattr__(name):
    from importlib import import_module

    if name in _HOME:
        home, there = _HOME[name]
        value = getattr(import_module(home, __name__), there)
    elif name in _MODULES:
        value = import_module("." + name, __name__)
    else:
        import sys
        missing = import_module(_HOME["search_tools"][0], __name__).missing

        raise missing(name, _HOME, sys._getframe(1))
    globals()[name] = value
    return value


def __dir__():
    return sorted(list(_HOME) + _MODULES)`

func (g *group) python(w twin) *page {
	var body page
	imports := &pythonTypes{names: map[string]bool{}}
	for _, t := range g.tools {
		t.python(&body, w, imports)
	}
	p := &page{}
	p.docstring("", g.about)
	p.line("from __future__ import annotations")
	p.line("")
	p.line("from %s_bridge import %s, _tool, unset", w.above, w.internal)
	p.line("")
	p.line("TYPE_CHECKING = False")
	p.line("if TYPE_CHECKING:")
	p.line("    from typing import Any, Literal")
	for _, n := range imports.sorted() {
		p.line("    from %stypes import %s", w.above, n)
	}
	p.line("")
	p.line("# The defaults of each tool's parameters; such arguments are not sent.")
	p.line("_optional = {}")
	p.WriteString(body.String())
	return p
}

func (t *tool) python(p *page, w twin, types *pythonTypes) {
	p.line("")
	p.line("")
	p.line("%s %s(%s) -> %s:", w.def, t.short, t.signature(types), types.of(t.result))
	p.docstring("    ", t.help(types))
	var must, may, names []string
	if t.more != nil {
		must = append(must, "**"+t.rest)
	}
	for i, f := range t.fields {
		pair := python(f.name) + ": " + t.params[i]
		if f.required {
			must = append(must, pair)
			continue
		}
		may = append(may, pair)
		names = append(names, python(f.name)+": "+python(t.params[i]))
	}
	name := python(t.Name)
	p.line("    %s(%s, {%s}, {%s}, _optional[%s])", w.call, name, strings.Join(must, ", "), strings.Join(may, ", "), name)
	p.line("")
	p.line("")
	p.line("_optional[%s] = _tool(%s, %s, {%s})", name, t.short, name, strings.Join(names, ", "))
}

// signature is the list of parameters.
func (t *tool) signature(types *pythonTypes) string {
	var params []string
	if len(t.fields) > 0 {
		params = append(params, "*")
	}
	for i, f := range t.fields {
		sh := f.shape
		param := t.params[i] + ": "
		value, ok := f.usable()
		if ok && value == nil && sh.kind != anything {
			sh = join([]*shape{sh, {kind: null}})
		}
		param += types.of(sh)
		switch {
		case ok:
			param += " = " + pythonValue(value)
		case !f.required:
			param += " = unset"
		}
		params = append(params, param)
	}
	if t.more != nil {
		params = append(params, "**"+t.rest+": "+types.of(t.more))
	}
	return strings.Join(params, ", ")
}

// help is the docstring of a tool.
func (t *tool) help(types *pythonTypes) string {
	var b strings.Builder
	b.WriteString(short(t.Description, maxText))
	if t.Description == "" {
		b.WriteString("Call the tool " + t.Name + ".")
	}
	if len(t.fields) > 0 {
		b.WriteString("\n\nArgs:")
	}
	for i, f := range t.fields {
		b.WriteString(entry(t.params[i], f, types))
		if f.preset != nil {
			fmt.Fprintf(&b, " (default %s)", short(string(f.preset), 200))
		}
	}
	if result := t.result; result != any1 {
		b.WriteString("\n\nReturns:\n    " + types.of(result))
		if result.kind == list {
			result = result.elem
			if result.kind == reference {
				b.WriteString("; " + types.of(result))
			}
		}
		if result.kind == reference && result.named.object {
			b.WriteString(", a dict with:")
			for _, f := range result.named.fields {
				b.WriteString(strings.Replace(entry(plain(f.name), f, types), "\n", "\n    ", 1))
			}
		}
	}
	return b.String()
}

func entry(name string, f field, types *pythonTypes) string {
	e := fmt.Sprintf("\n    %s (%s)", name, types.of(f.shape))
	if about := oneLine(f.about); about != "" {
		e += ": " + about
	}
	return e
}

func oneLine(s string) string { return strings.Join(strings.Fields(short(s, 500)), " ") }

// docstring is one literal, a line of it on each line.
func (p *page) docstring(indent, text string) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) == 1 {
		p.line("%s%s", indent, python(lines[0]))
		return
	}
	p.line("%s(", indent)
	for i, l := range lines {
		if i < len(lines)-1 {
			l += "\n"
		}
		p.line("%s    %s", indent, python(l))
	}
	p.line("%s)", indent)
}

// pythonIndex is what search_tools searches.
func (m *model) pythonIndex() *page {
	p := &page{}
	p.line("TOOLS = [")
	for _, t := range m.tools {
		p.line("    (%s, %s),", python(t.pythonLine()), python(t.about()))
	}
	p.line("]")
	return p
}

// pythonLine is a tool's signature and purpose in one line.
func (t *tool) pythonLine() string {
	line := t.pythonSignature()
	if about := firstLine(t.Description); about != "" {
		line += "  # " + about
	}
	return line
}

func (t *tool) pythonSignature() string {
	types := &pythonTypes{names: map[string]bool{}}
	return short(fmt.Sprintf("%s(%s) -> %s", t.id, t.signature(types), types.of(t.result)), 1000)
}

// about is what a search looks at, in lower case.
func (t *tool) about() string {
	return strings.ToLower(t.Name + " " + t.id + " " + strings.Join(strings.Fields(short(t.Description, 1000)), " "))
}

// pythonValue is a JSON value as an expression of Python. Values that a literal
// cannot hold are left to the host.
func pythonValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case string:
		return python(v)
	case json.Number:
		if s := v.String(); len(s) < 100 {
			return s
		}
	case []any:
		var items []string
		for _, i := range v {
			items = append(items, pythonValue(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for k, i := range v {
			items = append(items, python(k)+": "+pythonValue(i))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	return "unset"
}
