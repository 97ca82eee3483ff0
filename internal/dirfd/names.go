package dirfd

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxName is the longest name of one component in bytes (NAME_MAX of
	// linux/limits.h).
	MaxName = 255
	// MaxPath is the longest path in bytes (PATH_MAX less the final NUL).
	MaxPath = 4095
)

// NameError says why a name or a relative path is not used.
type NameError struct {
	// Name is the name or path as given; it may hold any byte.
	Name string
	// Why is the reason, fit for a user: `holds a ".." component`.
	Why string
}

func (e *NameError) Error() string { return "name " + Shown(e.Name) + " " + e.Why }

// CheckName says whether name is one component that is safe to use on this
// machine and to show to people. It refuses, with a *NameError: the empty
// name, "." and "..", a slash, NUL and other control characters, line
// separators, characters that reverse the direction of the text after them,
// invalid UTF-8, and more than MaxName bytes.
func CheckName(name string) error {
	if why := nameFault(name); why != "" {
		return &NameError{Name: name, Why: why}
	}
	return nil
}

// CheckRel says whether rel is a path of good names below some directory,
// written in the one way such a path can be written: not absolute, no ".",
// ".." or empty component, no trailing slash, at most MaxPath bytes. Two
// paths that pass are the same path exactly when they are equal strings, and
// one is inside the other exactly when it begins with the other and a slash:
// "data-evil" is not in "data".
func CheckRel(rel string) error {
	if why := relFault(rel); why != "" {
		return &NameError{Name: rel, Why: why}
	}
	return nil
}

func relFault(rel string) string {
	switch {
	case rel == "":
		return "is empty"
	case len(rel) > MaxPath:
		return "is longer than 4095 bytes"
	case rel[0] == '/':
		return "is absolute"
	case rel[len(rel)-1] == '/':
		return "ends in a slash"
	}
	for name := range strings.SplitSeq(rel, "/") {
		switch name {
		case "":
			return "holds an empty component"
		case ".", "..":
			return `holds a "` + name + `" component`
		}
		if why := nameFault(name); why != "" {
			return why
		}
	}
	return ""
}

func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "means another directory"
	case len(name) > MaxName:
		return "has a component longer than 255 bytes"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	}
	for _, r := range name {
		switch {
		case r == '/':
			return "holds a slash"
		case unicode.IsControl(r):
			return "holds a control character"
		case misleading(r):
			return "holds a line separator or a text-direction override"
		}
	}
	return ""
}

// misleading reports characters that no file name needs and that make one look
// like another on a screen: line and paragraph separators, and the embeddings,
// overrides and isolates of the bidirectional algorithm (UAX #9).
func misleading(r rune) bool {
	return r == 0x2028 || r == 0x2029 || 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069
}

// Shown is a name in quotes for people: bytes that are not printable are
// escaped, so that it cannot speak to a terminal, and a long name is cut.
func Shown(name string) string {
	if len(name) > shownMax {
		return strconv.Quote(name[:shownMax]) + "…"
	}
	return strconv.Quote(name)
}

// shownMax bounds a name in a message, in bytes.
const shownMax = 300
