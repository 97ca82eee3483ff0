package toolfile

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/internal/tomltext"
	"github.com/isolate-run/isolate/policy"
)

// This file says where things stand and collects what is wrong with them.

// report adds a problem at an offset of the file.
func (d *decoder) report(offset int, p policy.Problem) {
	p.Line, p.Column = d.lines.Position(offset)
	d.problems = append(d.problems, p)
}

// problem reports the error of a set function, if it is one.
func (d *decoder) problem(offset int, field string, err error) {
	var p policy.Problem
	if errors.As(err, &p) {
		p.Field = field
		d.report(offset, p)
	}
}

func (d *decoder) syntax(offset int, message string) {
	d.report(offset, policy.Problem{What: "cannot read the file as TOML: " + message, Hint: "see docs/tools.md for the format"})
}

// once notes where a setting stands, or reports that it stands twice.
func (d *decoder) once(path []part) bool {
	first, twice := d.places[placeKey(path)]
	last := path[len(path)-1]
	if !twice {
		d.places[placeKey(path)] = last.offset
		return true
	}
	line, _ := d.lines.Position(first)
	d.report(last.offset, policy.Problem{
		Field: joined(path), What: fmt.Sprintf("cannot set %s twice: it is set in line %d already", quote(joined(path)), line), Hint: "remove one of them",
	})
	return false
}

// note notes where a table stands first.
func (d *decoder) note(path []part) {
	if _, ok := d.places[placeKey(path)]; !ok {
		d.places[placeKey(path)] = path[len(path)-1].offset
	}
}

// placeKey keeps "a.b" and a.b apart.
func placeKey(path []part) string {
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = p.name
	}
	return strings.Join(names, "\x00")
}

// at is where a setting of a table stands, or the table.
func (d *decoder) at(names ...string) int {
	for n := len(names); n > 0; n-- {
		if offset, ok := d.places[strings.Join(names[:n], "\x00")]; ok {
			return offset
		}
	}
	return 0
}

// tooMuch gives up on a document whose check would take too long.
func (d *decoder) tooMuch(path []part, entries int) bool {
	d.entries += entries
	switch {
	case d.entries > maxEntries:
		d.report(path[0].offset, policy.Problem{
			What: fmt.Sprintf("cannot read the file: it has more than %d keys and list items", maxEntries),
			Hint: "name a tools file; it has a few lines for each tool",
		})
	case len(path) > maxKeyParts:
		d.report(path[0].offset, policy.Problem{
			What: fmt.Sprintf("cannot read the key %s…: it has more than %d parts", quote(path[0].name), maxKeyParts),
			Hint: "see docs/tools.md for the format",
		})
	default:
		return false
	}
	d.gaveUp = true
	return true
}

// sorted is the problems in the order of the file, cut at maxProblems.
func (d *decoder) sorted() []policy.Problem {
	sort.SliceStable(d.problems, func(i, j int) bool {
		a, b := d.problems[i], d.problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	more := len(d.problems) - maxProblems
	if more <= 0 {
		return d.problems
	}
	return append(d.problems[:maxProblems:maxProblems], policy.Problem{
		What: fmt.Sprintf("cannot list the other %d problems: the list is long enough", more),
		Hint: "mend these first",
	})
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
	text := strings.Join(names, ".")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}

func wrongKind(field string, is unstable.Kind, takes, example string) policy.Problem {
	return policy.Problem{Field: field, What: fmt.Sprintf("cannot read %s: it is %s, not %s", quote(field), tomltext.Kind(is), takes), Hint: "write " + example}
}

func notTable(k key, path []part) policy.Problem {
	return policy.Problem{Field: joined(path), What: fmt.Sprintf("cannot read %s: %s is %s", quote(joined(path)), k.name, k.takes), Hint: "write " + k.example}
}
