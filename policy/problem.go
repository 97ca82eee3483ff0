package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a policy or with a text meant for
// one, and what to do about it. It is the error type of the Parse functions
// and of the UnmarshalText methods.
type Problem struct {
	// Field is the setting by its name in a policy file: "memory",
	// "env.PATH", "read-only[0].source", "allow[1]". Empty when the problem is
	// not one of a setting.
	Field string `json:"field,omitempty"`
	// What cannot be done and why: `cannot read memory "512": it has no unit`.
	What string `json:"what"`
	// Hint is what to do instead, as an order: `write "512M" or "512KiB"`.
	Hint string `json:"hint"`
	// Line and Column say where in the policy file, from 1, columns in bytes.
	// Zero means that the problem does not stand in a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Error is the problem with its hint, without its place in a file.
func (p Problem) Error() string { return p.What + "; " + p.Hint }

// DecodeError is everything that is wrong with one policy file.
type DecodeError struct {
	// Name is the name of the file as the caller gave it.
	Name string
	// Problems is never empty and in the order of the file.
	Problems []Problem
}

func (e *DecodeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot use policy %s:", quote(e.Name))
	for _, p := range e.Problems {
		if p.Line == 0 {
			fmt.Fprintf(&b, "\n  %s", p.Error())
			continue
		}
		fmt.Fprintf(&b, "\n  line %d, column %d: %s", p.Line, p.Column, p.Error())
	}
	return b.String()
}

// refuse makes the Problem of a text that cannot be read as a noun.
func refuse(noun, text, cause, hint string) Problem {
	return Problem{What: fmt.Sprintf("cannot read %s %s: %s", noun, quote(text), cause), Hint: hint}
}

// quotedBytes bounds how much of a text from outside an error repeats: a file
// of one megabyte may hold a single key.
const quotedBytes = 80

// quote is %q of at most quotedBytes of the text.
func quote(text string) string {
	if len(text) <= quotedBytes {
		return fmt.Sprintf("%q", text)
	}
	cut := quotedBytes
	for cut > quotedBytes-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", text[:cut])
}
