package toolfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/mcp"
	"github.com/isolate-run/isolate/internal/tomltext"
	"github.com/isolate-run/isolate/policy"
)

const (
	// MaxFileSize is the size of the largest file, in bytes.
	MaxFileSize = policy.MaxFileSize
	// maxEntries bounds keys, headers and list items, as for a policy: the
	// TOML library's check for duplicates takes time with their square.
	maxEntries = 4096
	// maxKeyParts bounds a dotted key, of which ours have four parts.
	maxKeyParts = 16
	// maxProblems bounds the list of problems.
	maxProblems = 100
)

// Read is Decode of what r holds. It reads no more than MaxFileSize and one
// byte.
func Read(name string, r io.Reader) (File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	if err != nil {
		return File{}, fmt.Errorf("cannot read tools file %s: %w", quote(name), err)
	}
	return Decode(name, data)
}

// Decode reads a tools.toml. The error is a *DecodeError. The name is for it.
func Decode(name string, data []byte) (File, error) {
	if len(data) > MaxFileSize {
		return File{}, &DecodeError{name, []policy.Problem{{
			What: fmt.Sprintf("cannot read the file: it has more than %s", policy.Size(MaxFileSize)),
			Hint: "name a tools file; it has a few lines for each tool",
		}}}
	}
	d := decoder{lines: tomltext.LinesOf(data), places: map[string]int{}, tools: map[string]*Tool{}, servers: map[string]*Server{}}
	d.walk(data)
	if !d.gaveUp {
		d.checkWhole()
		d.checkDocument(data)
	}
	if len(d.problems) > 0 {
		return File{}, &DecodeError{name, d.sorted()}
	}
	return d.file(), nil
}

// decoder walks the expressions of a TOML document and collects problems; why
// it is done so is told in policy's decoder, which has the same form.
type decoder struct {
	lines    tomltext.Lines
	problems []policy.Problem
	// places are the offsets of settings and tables by their path.
	places  map[string]int
	table   []part
	skip    bool
	entries int
	gaveUp  bool

	limits  Limits
	approve Approve
	tools   map[string]*Tool
	servers map[string]*Server
}

// part is one part of a dotted key.
type part struct {
	name   string
	offset int
}

func (d *decoder) walk(data []byte) {
	var p unstable.Parser
	p.Reset(data)
	for !d.gaveUp && p.NextExpression() {
		e := p.Expression()
		path := keyOf(e)
		if d.tooMuch(path, tomltext.Entries(e)) {
			return
		}
		switch e.Kind {
		case unstable.Table:
			d.table, d.skip = path, !d.enter(path)
		case unstable.ArrayTable:
			d.skip = true
			d.report(path[0].offset, policy.Problem{
				What: fmt.Sprintf("cannot read [[%s]]: nothing in this file is a list of tables", joined(path)),
				Hint: "write " + d.sectionExample(path[0].name),
			})
		case unstable.KeyValue:
			if !d.skip {
				d.pair(append(slices.Clone(d.table), path...), e.Value())
			}
		}
	}
	var syntax *unstable.ParserError
	switch err := p.Error(); {
	case errors.As(err, &syntax):
		d.syntax(int(p.Range(syntax.Highlight).Offset), syntax.Message)
	case err != nil:
		d.syntax(0, err.Error())
	}
}

func (d *decoder) sectionExample(name string) string {
	if example, ok := sectionExamples[name]; ok {
		return example
	}
	return "[tool.NAME], [mcp.NAME], [limits] or [approve]"
}

// enter begins a table, or looks whether a path may be one.
func (d *decoder) enter(path []part) bool {
	keys, rest, ok := d.keysOf(path)
	if !ok || len(rest) == 0 {
		return ok
	}
	k, ok := d.find(keys, rest[0], path)
	if !ok {
		return false
	}
	if k.entry == nil || len(rest) > 1 {
		d.report(rest[0].offset, notTable(k, path))
		return false
	}
	return d.once(path[:len(path)-len(rest)+1])
}

// keysOf finds the table of a path: its settings, and what of the path is
// below it. No keys and ok is a path above the tables, as [tool].
func (d *decoder) keysOf(path []part) (keys []key, rest []part, ok bool) {
	switch path[0].name {
	case "limits":
		d.note(path[:1])
		return limitKeys(&d.limits), path[1:], true
	case "approve":
		d.note(path[:1])
		return approveKeys(&d.approve), path[1:], true
	case "tool", "mcp":
		if len(path) == 1 {
			return nil, nil, true
		}
		return d.named(path)
	}
	hint := "write " + d.sectionExample("")
	if near, ok := policy.Nearest(path[0].name, sections); ok {
		hint = fmt.Sprintf("did you mean %s?", sectionExamples[near])
	}
	d.report(path[0].offset, policy.Problem{What: fmt.Sprintf("cannot use key %s: there is no such table or setting", quote(path[0].name)), Hint: hint})
	return nil, nil, false
}

// named finds or makes a tool or server.
func (d *decoder) named(path []part) ([]key, []part, bool) {
	name := path[1].name
	check, isNew := bridge.CheckName, d.tools[name] == nil
	if path[0].name == "mcp" {
		check, isNew = mcp.CheckName, d.servers[name] == nil
	}
	if isNew {
		if err := check(name); err != nil {
			d.report(path[1].offset, policy.Problem{Field: joined(path[:2]), What: err.Error(), Hint: "write a name such as " + path[0].name + ".invoices"})
			return nil, nil, false
		}
		d.note(path[:2])
	}
	if path[0].name == "mcp" {
		if isNew {
			d.servers[name] = &Server{Name: name}
		}
		return serverKeys(d.servers[name]), path[2:], true
	}
	if isNew {
		d.tools[name] = &Tool{Name: name}
	}
	return toolKeys(d.tools[name]), path[2:], true
}

// find is the setting of a name, or a report that there is none.
func (d *decoder) find(keys []key, p part, path []part) (key, bool) {
	names := make([]string, len(keys))
	for i, k := range keys {
		if k.name == p.name {
			return k, true
		}
		names[i] = k.name
	}
	hint := "the settings of this table are " + strings.Join(names, ", ")
	if near, ok := policy.Nearest(p.name, names); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.report(p.offset, policy.Problem{What: fmt.Sprintf("cannot use key %s: [%s] has no setting of that name", quote(p.name), heading(path)), Hint: hint})
	return key{}, false
}

// heading is the table that a path begins with.
func heading(path []part) string {
	if path[0].name == "tool" || path[0].name == "mcp" {
		return joined(path[:min(2, len(path))])
	}
	return path[0].name
}

// pair reads one key-value with the whole key it has.
func (d *decoder) pair(path []part, v *unstable.Node) {
	keys, rest, ok := d.keysOf(path)
	switch {
	case !ok:
	case len(rest) == 0:
		// limits = {…}, tool = {x = {…}} and the like: the same, inline.
		if v.Kind != unstable.InlineTable {
			d.report(tomltext.ValueOffset(v, path[0].offset), policy.Problem{
				Field: joined(path), What: fmt.Sprintf("cannot read %s: it is %s, not a table", quote(joined(path)), tomltext.Kind(v.Kind)), Hint: "write " + d.sectionExample(path[0].name),
			})
			return
		}
		d.inline(path, v)
	default:
		if k, ok := d.find(keys, rest[0], path); ok {
			d.setting(k, path, rest, v)
		}
	}
}

// inline reads the pairs of an inline table.
func (d *decoder) inline(path []part, v *unstable.Node) {
	for it := v.Children(); it.Next(); {
		d.pair(append(slices.Clone(path), keyOf(it.Node())...), it.Node().Value())
	}
}

// setting reads the value of a setting.
func (d *decoder) setting(k key, path, rest []part, v *unstable.Node) {
	offset := tomltext.ValueOffset(v, rest[0].offset)
	switch {
	case k.entry != nil && len(rest) == 1 && v.Kind == unstable.InlineTable:
		if d.once(path) {
			d.inline(path, v)
		}
	case k.entry != nil && len(rest) == 2 && v.Kind == unstable.String:
		if d.once(path) {
			d.problem(rest[1].offset, joined(path), k.entry(rest[1].name, string(v.Data)))
		}
	case k.entry != nil && len(rest) == 2:
		d.report(offset, wrongKind(joined(path), v.Kind, "a string", "the value in quotes"))
	case len(rest) > 1:
		d.report(rest[0].offset, notTable(k, path))
	case v.Kind != k.kind:
		d.report(offset, wrongKind(joined(path), v.Kind, k.takes, k.example))
	case d.once(path):
		if val, ok := d.value(k, path, offset, v); ok {
			d.problem(offset, joined(path), k.set(val))
		}
	}
}

// value copies a value out of the parser.
func (d *decoder) value(k key, path []part, offset int, v *unstable.Node) (value, bool) {
	out := value{kind: v.Kind, text: string(v.Data), offset: offset}
	if v.Kind != unstable.Array {
		return out, true
	}
	out.items = []string{}
	for it := v.Children(); it.Next(); {
		if it.Node().Kind != unstable.String {
			d.report(tomltext.ValueOffset(it.Node(), offset), wrongKind(joined(path), it.Node().Kind, "a string", k.example))
			return out, false
		}
		out.items = append(out.items, string(it.Node().Data))
	}
	return out, true
}

// file puts the parts together, by name.
func (d *decoder) file() File {
	f := File{Limits: d.limits, Approve: d.approve}
	for _, t := range d.tools {
		f.Tools = append(f.Tools, *t)
	}
	for _, s := range d.servers {
		f.Servers = append(f.Servers, *s)
	}
	sort.Slice(f.Tools, func(i, j int) bool { return f.Tools[i].Name < f.Tools[j].Name })
	sort.Slice(f.Servers, func(i, j int) bool { return f.Servers[i].Name < f.Servers[j].Name })
	return f
}

// checkDocument lets the library say whether the document is TOML. What the
// walk has already found in the same line is not told twice.
func (d *decoder) checkDocument(data []byte) {
	refused := tomltext.Check(data)
	switch {
	case refused == nil:
	case refused.Line == 0:
		d.syntax(0, refused.Message)
	case !slices.ContainsFunc(d.problems, func(p policy.Problem) bool { return p.Line == refused.Line }):
		d.syntax(d.lines.Offset(refused.Line)+refused.Column-1, refused.Message)
	}
}
