package stub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func (m *model) script() (files []File, err error) {
	const dir = NodePath + "/isolate-tools/"
	add := func(name, text string) {
		files = append(files, File{Path: dir + name, Mode: 0o644, Content: []byte(text)})
	}
	runtime, err := sdk.ReadFile("sdk/node/bridge.cjs")
	if err != nil {
		return nil, err
	}
	var index [][2]string
	for _, t := range m.tools {
		index = append(index, [2]string{t.scriptLine(), t.about()})
	}
	signatures, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	add("bridge.cjs", string(runtime))
	add("signatures.json", string(ascii(signatures)))
	add("package.json", packageJSON)
	add("index.cjs", m.commonJS())
	add("index.mjs", m.esModule())
	add("index.d.ts", m.declarations())
	return files, nil
}

// The declarations describe index.cjs, whose exports index.mjs passes on.
const packageJSON = `{
  "name": "isolate-tools",
  "version": "1.0.0",
  "description": "Tools of the host",
  "main": "./index.cjs",
  "module": "./index.mjs",
  "types": "./index.d.ts",
  "exports": {
    ".": {
      "types": "./index.d.ts",
      "import": "./index.mjs",
      "require": "./index.cjs"
    },
    "./package.json": "./package.json"
  }
}
`

// helpers are what the modules export beside tools.
var helpers = append([]string{"call", "callSync", "map", "searchTools"}, exceptions...)

func (m *model) commonJS() string {
	p := &page{}
	p.line("'use strict';")
	p.line("const bridge = require('./bridge.cjs');")
	p.line("")
	p.line("// A tool is a function of one object that gives a promise; its sync waits.")
	p.line("function tool(name) {")
	p.line("  const f = (args) => bridge.call(name, args);")
	p.line("  f.sync = (args) => bridge.callSync(name, args);")
	p.line("  return f;")
	p.line("}")
	p.line("")
	for _, h := range helpers {
		p.line("exports.%s = bridge.%s;", h, h)
	}
	for _, t := range m.tools {
		p.line("exports.%s = tool(%s);", t.id, script(t.Name))
	}
	return p.String()
}

func (m *model) esModule() string {
	p := &page{}
	p.line("import $tools from './index.cjs';")
	p.line("")
	for _, h := range helpers {
		p.line("export const %s = $tools.%s;", h, h)
	}
	for _, t := range m.tools {
		p.line("export const %s = $tools.%s;", t.id, t.id)
	}
	return p.String()
}

const declaredHelpers = `/** What a call may throw. */
export declare class ToolError extends Error {
  constructor(code: string, message?: string, details?: unknown, tool?: string);
  /** One word that says what happened. */
  code: string;
  /** A JSON value with more, or null. */
  details: unknown;
  /** The tool that was called, or null. */
  tool: string | null;
}
/** A person or the policy said no. The tool did not run. */
export declare class ToolDenied extends ToolError {}
/** The call cannot be served as it is. The tool did not run. */
export declare class ToolInvalidArguments extends ToolError {}
/** The tool took too long. What it did by then is not known. */
export declare class ToolTimeout extends ToolError {}
/** A limit of calls, bytes or space was met. */
export declare class ToolLimit extends ToolError {}
/** The tool itself failed. */
export declare class ToolFailed extends ToolError {}
/** The bridge to the host has ended, or there is none. */
export declare class BridgeClosed extends ToolError {}

/** One line, a signature and what it is for, of each tool that fits all words. */
export declare function searchTools(text?: string): string[];
/** Calls fn for each item, at most width (32) at a time; gives the results in order. */
export declare function map<T, R>(fn: (item: T) => R | Promise<R>, items: Iterable<T>, width?: number): Promise<R[]>;
/** Calls a tool by its own name. */
export declare function call<K extends keyof Tools>(tool: K, args: Tools[K]["args"]): Promise<Tools[K]["result"]>;
export declare function call<N extends string>(tool: N extends keyof Tools ? never : N, args?: object): Promise<unknown>;
/** Calls a tool by its own name and waits. */
export declare function callSync<K extends keyof Tools>(tool: K, args: Tools[K]["args"]): Tools[K]["result"];
export declare function callSync<N extends string>(tool: N extends keyof Tools ? never : N, args?: object): unknown;
`

func (m *model) declarations() string {
	p := &page{}
	p.line("// Integers beyond 2^53 come as bigint, whatever their type says here.")
	p.line("")
	p.line("%s", declaredHelpers)
	p.line("/** Arguments and result of each tool, by its own name. */")
	p.line("export interface Tools {")
	for _, t := range m.tools {
		p.line("  %s: { args: %s; result: %s };", script(t.Name), t.scriptArgs(), scriptType(t.result, top))
	}
	p.line("}")
	for _, n := range m.types {
		p.line("")
		p.WriteString(jsdoc("", short(n.about, maxText)))
		if n.object {
			p.line("export interface %s {", n.name)
			p.fields("  ", n.fields)
			if n.open {
				p.line("  [key: string]: unknown;")
			}
			p.line("}")
		} else {
			p.line("export type %s = %s;", n.name, scriptType(n.alias, inAlias))
		}
	}
	for _, t := range m.tools {
		t.declare(p)
	}
	return p.String()
}

// scriptDeclaration is a type in one line, for reading.
func scriptDeclaration(n *named) string {
	if !n.object {
		return "type " + n.name + " = " + scriptType(n.alias, inAlias)
	}
	var fields []string
	for _, f := range n.fields {
		fields = append(fields, f.script())
	}
	if n.open {
		fields = append(fields, "[key: string]: unknown")
	}
	return "interface " + n.name + " { " + strings.Join(fields, "; ") + " }"
}

func (t *tool) declare(p *page) {
	p.line("")
	if len(t.fields) > 0 {
		p.line("export interface %s {", t.args)
		p.fields("  ", t.fields)
		if t.more != nil {
			p.line("  [key: string]: unknown;")
		}
		p.line("}")
	}
	p.WriteString(jsdoc("", short(t.Description, maxText)))
	mark := "?"
	if slices.ContainsFunc(t.fields, func(f field) bool { return f.required }) {
		mark = ""
	}
	result := scriptType(t.result, top)
	p.line("export declare const %s: {", t.id)
	p.line("  (args%s: %s): Promise<%s>;", mark, t.scriptArgs(), result)
	p.line("  /** The same, and waits. */")
	p.line("  sync(args%s: %s): %s;", mark, t.scriptArgs(), result)
	p.line("};")
}

// scriptArgs is the type of a tool's arguments.
func (t *tool) scriptArgs() string {
	switch {
	case len(t.fields) > 0:
		return t.args
	case t.more != nil:
		return "Record<string, " + scriptType(t.more, top) + ">"
	}
	return "Record<string, never>"
}

func (p *page) fields(indent string, fields []field) {
	for _, f := range fields {
		about := f.about
		if f.preset != nil {
			about = strings.TrimSpace(about + "\nDefault: " + short(string(f.preset), 200))
		}
		p.WriteString(jsdoc(indent, short(about, maxText)))
		p.line("%s%s;", indent, f.script())
	}
}

// script is a field as a property of an interface.
func (f field) script() string {
	mark := "?"
	if f.required {
		mark = ""
	}
	key := f.name
	if clean(key) != key || key == "" || key[0] >= 0x80 {
		key = script(key)
	}
	return key + mark + ": " + scriptType(f.shape, top)
}

// scriptLine is a tool's signature and purpose in one line.
func (t *tool) scriptLine() string {
	line := t.scriptSignature()
	if about := firstLine(t.Description); about != "" {
		line += "  // " + about
	}
	return line
}

func (t *tool) scriptSignature() string {
	args := "args?: " + t.scriptArgs()
	if len(t.fields) > 0 {
		var fields []string
		for _, f := range t.fields {
			fields = append(fields, f.script())
		}
		args = "args: { " + strings.Join(fields, "; ") + " }"
	}
	return short(fmt.Sprintf("%s(%s): Promise<%s>", t.id, args, scriptType(t.result, top)), 1000)
}

// where says where a type of TypeScript is written. An alias that refers to
// itself through Record is an error there, through an index signature not.
type where int

const (
	top where = iota
	inAlias
)

func scriptType(s *shape, w where) string {
	switch s.kind {
	case null:
		return "null"
	case boolean:
		return "boolean"
	case integer, number:
		return "number"
	case text:
		return "string"
	case literal:
		switch base := s.base(); {
		case base != text && len(s.value) > 100:
			return "number"
		case base != text:
			return s.value
		case len(s.value) > 300:
			return "string"
		}
		if v, err := decode([]byte(s.value)); err == nil {
			return script(v.(string))
		}
	case list:
		elem := scriptType(s.elem, w)
		if s.elem.kind == union {
			elem = "(" + elem + ")"
		}
		return elem + "[]"
	case dict:
		if w == inAlias {
			return "{ [key: string]: " + scriptType(s.elem, w) + " }"
		}
		return "Record<string, " + scriptType(s.elem, w) + ">"
	case tuple:
		var items []string
		for _, i := range s.items {
			items = append(items, scriptType(i, w))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case union:
		var items []string
		for _, i := range s.items {
			items = append(items, scriptType(i, w))
		}
		return strings.Join(items, " | ")
	case reference:
		return s.named.name
	}
	return "unknown"
}
