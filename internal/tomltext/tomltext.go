// Package tomltext says where things stand in the text of a TOML document, what
// they are called, and whether the library takes the document as a whole. What
// a document may say is for the packages that decode one. It needs no kernel.
package tomltext

import (
	"errors"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Lines are the offsets of the beginnings of lines, from the second.
type Lines []int

// LinesOf finds the lines of a text.
func LinesOf(data []byte) (l Lines) {
	for i, c := range data {
		if c == '\n' {
			l = append(l, i+1)
		}
	}
	return l
}

// Position is the line and column of an offset, both from 1.
func (l Lines) Position(offset int) (line, column int) {
	n := sort.SearchInts(l, offset+1)
	return n + 1, offset - l.Offset(n+1) + 1
}

// Offset is where a line begins.
func (l Lines) Offset(line int) int {
	if line == 1 {
		return 0
	}
	return l[line-2]
}

// Refusal is why the library does not take a document. Line and Column are
// from 1, or 0 if it does not say.
type Refusal struct {
	Line, Column int
	Message      string
}

// Check lets the library say whether the document is TOML: tables defined
// twice, impossible dates and the like. Nil means that it is.
func Check(data []byte) *Refusal {
	var document map[string]any
	err := toml.Unmarshal(data, &document)
	var refused *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return &Refusal{Message: err.Error()}
	}
	line, column := refused.Position()
	return &Refusal{line, column, strings.TrimPrefix(refused.Error(), "toml: ")}
}

// ValueOffset is where a value stands. The parser gives lists, tables and empty
// values no place; the key, which comes before them, stands in for it.
func ValueOffset(v *unstable.Node, keyOffset int) int {
	if v.Raw.Length == 0 {
		return keyOffset
	}
	return int(v.Raw.Offset)
}

// Entries counts the keys and list items in an expression, at any depth: the
// parser bounds how deep that can be.
func Entries(n *unstable.Node) int {
	switch n.Kind {
	case unstable.KeyValue:
		return 1 + Entries(n.Value())
	case unstable.Table, unstable.ArrayTable:
		return 1
	}
	total := 0
	for it := n.Children(); it.Next(); {
		total += Entries(it.Node())
		if n.Kind == unstable.Array {
			total++
		}
	}
	return total
}

// Kind says what a value is, in "it is …".
func Kind(k unstable.Kind) string {
	switch k {
	case unstable.String:
		return "a string"
	case unstable.Integer:
		return "a whole number"
	case unstable.Float:
		return "a number with a point"
	case unstable.Bool:
		return "true or false"
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	case unstable.LocalDate:
		return "a date"
	case unstable.LocalTime:
		return "a time of day"
	case unstable.LocalDateTime, unstable.DateTime:
		return "a date with a time"
	}
	return ""
}
