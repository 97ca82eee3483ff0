package policy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/internal/tomltext"
)

// MaxFileSize is the largest policy file, in bytes. A policy has a few lines;
// the largest environment (MaxEnv) and all binds (MaxBinds) fit as well.
const MaxFileSize = 1 << 20

const (
	// maxEntries bounds the keys, headers and list items of a file: the TOML library's
	// check for duplicates takes time with their square, a minute for 100,000.
	maxEntries = 4096
	// maxKeyParts bounds a dotted key, of which ours have two parts.
	maxKeyParts = 16
	// maxProblems bounds the list of problems of one file.
	maxProblems = 100
)

// Read is Decode of what r holds. It reads no more than MaxFileSize and one
// byte. The name is for the error.
func Read(name string, r io.Reader) (Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	if err != nil {
		return Policy{}, fmt.Errorf("cannot read policy %s: %w", quote(name), err)
	}
	return Decode(name, data)
}

// Decode reads a policy file, as docs/policy.md describes it. It is strict:
// whatever it does not know is refused. The error is a *DecodeError with every
// problem that the file has by itself; problems that depend on other settings,
// on consent or on the user are for Validate, because the caller may still
// change the policy. The name is for the error.
func Decode(name string, data []byte) (Policy, error) {
	if len(data) > MaxFileSize {
		return Policy{}, &DecodeError{name, []Problem{{
			What: fmt.Sprintf("cannot read the file: it has more than %s", Size(MaxFileSize)),
			Hint: "name a policy file; it has a few lines",
		}}}
	}
	d := decoder{lines: tomltext.LinesOf(data), places: map[string]int{}}
	d.walk(data)
	for _, p := range d.policy.checkFields() {
		// A setting that could not be read is empty, and that is not told too.
		if !slices.ContainsFunc(d.problems, func(q Problem) bool { return q.Field == p.Field }) {
			d.report(d.placeOf(p.Field), p)
		}
	}
	if !d.gaveUp {
		d.checkDocument(data)
	}
	if len(d.problems) > 0 {
		return Policy{}, &DecodeError{name, d.sorted()}
	}
	return d.policy, nil
}

// decoder walks the expressions of a TOML document and collects problems. The
// library's own Unmarshal stops at the first wrong value, and its decoded tree
// has no places; so the walk is over its parser, and Unmarshal has the last
// word on whether the document as a whole is TOML.
type decoder struct {
	lines    tomltext.Lines
	policy   Policy
	problems []Problem
	// places are the offsets at which settings stand, by their Field.
	places map[string]int
	// table is the header in force: nil above the first one.
	table []part
	// skip is set below a header that was refused: its keys mean nothing.
	skip bool
	// entries counts keys, headers and list items.
	entries int
	gaveUp  bool
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
			d.enterTable(path)
		case unstable.ArrayTable:
			d.enterList(path)
		case unstable.KeyValue:
			if !d.skip {
				d.entry(append(slices.Clone(d.table), path...), e.Value())
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

// checkDocument lets the library say whether the document is TOML: tables
// defined twice, impossible dates and the like. What the walk has already
// found in the same line is not told twice.
func (d *decoder) checkDocument(data []byte) {
	refused := tomltext.Check(data)
	switch {
	case refused == nil:
	case refused.Line == 0:
		d.syntax(0, refused.Message)
	case !slices.ContainsFunc(d.problems, func(p Problem) bool { return p.Line == refused.Line }):
		d.syntax(d.lines.Offset(refused.Line)+refused.Column-1, refused.Message)
	}
}

func (d *decoder) syntax(offset int, message string) {
	d.report(offset, Problem{What: "cannot read the file as TOML: " + message, Hint: "see docs/policy.md for the format"})
}

// tooMuch gives up on a document whose check would take too long.
func (d *decoder) tooMuch(path []part, entries int) bool {
	d.entries += entries
	switch {
	case d.entries > maxEntries:
		d.report(path[0].offset, Problem{
			What: fmt.Sprintf("cannot read the file: it has more than %d keys and list items", maxEntries),
			Hint: "name a policy file; it has a few lines",
		})
	case len(path) > maxKeyParts:
		d.report(path[0].offset, Problem{
			What: fmt.Sprintf("cannot read the key %s…: it has more than %d parts", quote(path[0].name), maxKeyParts),
			Hint: "see docs/policy.md for the format",
		})
	default:
		return false
	}
	d.gaveUp = true
	return true
}

// enterTable begins [name].
func (d *decoder) enterTable(path []part) {
	d.table, d.skip = nil, true
	if k, ok := d.known(path[0]); ok {
		if (k.name != keyEnv && k.name != keyNet) || len(path) > 1 {
			d.report(path[0].offset, notTable(k, "["+joined(path)+"]"))
			return
		}
		if d.once(k.name, path[0].offset) {
			d.table, d.skip = path, false
		}
	}
}

// enterList begins [[name]].
func (d *decoder) enterList(path []part) {
	d.table, d.skip = nil, true
	if k, ok := d.known(path[0]); ok {
		if k.name == keyNet && len(path) == 2 && slices.Contains(netLists, path[1].name) {
			if _, ok := d.places[keyNet]; !ok {
				d.places[keyNet] = path[0].offset
			}
			d.table, d.skip = path, false
			d.addNet(path[1].name, path[1].offset)
			return
		}
		if k.name != keyReadOnly || len(path) > 1 {
			d.report(path[0].offset, notTable(k, "[["+joined(path)+"]]"))
			return
		}
		d.table, d.skip = path, false
		d.addBind(path[0].offset)
	}
}

func notTable(k key, header string) Problem {
	return Problem{
		Field: k.name,
		What:  fmt.Sprintf("cannot read %s: %s is %s", header, k.name, k.takes),
		Hint:  "write " + k.example,
	}
}

// known finds a setting or reports that there is none of that name.
func (d *decoder) known(p part) (key, bool) {
	k, ok := findKey(p.name)
	if !ok {
		d.unknown(p, keyNames())
	}
	return k, ok
}

func (d *decoder) unknown(p part, names []string) {
	hint := suggest(p.name, names)
	if own := synonyms[p.name]; slices.Contains(names, own) {
		hint = fmt.Sprintf("did you mean %q?", own)
	}
	d.report(p.offset, Problem{
		What: fmt.Sprintf("cannot use key %s: no setting has that name", quote(p.name)),
		Hint: hint,
	})
}

// synonyms are words that people write for a setting whose name is not spelt
// like them.
var synonyms = map[string]string{
	"host": "name", "hosts": "name", "domain": "name", "ip": "cidr", "address": "cidr",
	"network": keyNet, "timeout": "time", "ttl": "for",
}

// once notes where a setting stands, or reports that it stands twice.
func (d *decoder) once(field string, offset int) bool {
	if first, twice := d.places[field]; twice {
		line, _ := d.lines.Position(first)
		d.report(offset, Problem{
			Field: field,
			What:  fmt.Sprintf("cannot set %s twice: it is set in line %d already", field, line),
			Hint:  "remove one of them",
		})
		return false
	}
	d.places[field] = offset
	return true
}

// report adds a problem at an offset of the file.
func (d *decoder) report(offset int, p Problem) {
	p.Line, p.Column = d.lines.Position(offset)
	d.problems = append(d.problems, p)
}

// sorted is the problems in the order of the file, cut at maxProblems.
func (d *decoder) sorted() []Problem {
	sort.SliceStable(d.problems, func(i, j int) bool {
		a, b := d.problems[i], d.problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	more := len(d.problems) - maxProblems
	if more <= 0 {
		return d.problems
	}
	return append(d.problems[:maxProblems:maxProblems], Problem{
		What: fmt.Sprintf("cannot list the other %d problems: the list is long enough", more),
		Hint: "mend these first",
	})
}

// placeOf is where a Field stands, or the nearest that holds it, or 0.
func (d *decoder) placeOf(field string) int {
	for field != "" {
		if offset, ok := d.places[field]; ok {
			return offset
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 0
}

// keyOf is the dotted key of a table header or key-value.
func keyOf(n *unstable.Node) []part {
	var path []part
	for it := n.Key(); it.Next(); {
		path = append(path, part{string(it.Node().Data), int(it.Node().Raw.Offset)})
	}
	return path
}

func joined(path []part) string {
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = p.name
	}
	return strings.Join(names, ".")
}
