package stub

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Everything that somebody else wrote reaches a generated file through one of
// these functions.

// visible says whether a character may stand in generated text as it is: a
// letter, digit or sign that joins with nothing and does not turn the direction
// of what stands beside it.
func visible(r rune) bool {
	switch {
	case r < 0x7f:
		return r >= ' '
	case r == utf8.RuneError, unicode.IsMark(r):
		return false
	case 0x0590 <= r && r <= 0x08FF, 0xFB1D <= r && r <= 0xFDFF, 0xFE70 <= r && r <= 0xFEFF,
		0x10800 <= r && r <= 0x10FFF, 0x1E800 <= r && r <= 0x1EFFF: // written from right to left
		return false
	}
	return unicode.IsPrint(r)
}

// python is text as a literal of Python, on one line.
func python(text string) string {
	return quote(text, func(r rune) string {
		if r > 0xFFFF {
			return fmt.Sprintf(`\U%08x`, r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// script is text as a literal of JavaScript, TypeScript and JSON, on one line.
func script(text string) string { return quote(text, utf16Escape) }

func utf16Escape(r rune) string {
	if r > 0xFFFF {
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func quote(text string, escape func(rune) string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case visible(r):
			b.WriteRune(r)
		default:
			b.WriteString(escape(r))
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plain is text for one line that people read, in a comment up to the end of
// the line or on a terminal.
func plain(text string) string {
	var b strings.Builder
	for _, r := range text {
		if visible(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// lines are the lines of text, each plain; tabs become spaces.
func lines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", "    ").Replace(text)
	out := strings.Split(strings.TrimSpace(text), "\n")
	for i, l := range out {
		out[i] = plain(strings.TrimRight(l, " "))
	}
	return out
}

// jsdoc is text as a comment of TypeScript: it can neither end the comment nor
// begin a tag.
func jsdoc(indent, text string) string {
	if text == "" {
		return ""
	}
	all := lines(text)
	for i, l := range all {
		l = strings.ReplaceAll(l, "*/", `*\/`)
		if strings.HasPrefix(strings.TrimSpace(l), "@") {
			l = `\` + strings.TrimSpace(l)
		}
		all[i] = l
	}
	if len(all) == 1 {
		return indent + "/** " + all[0] + " */\n"
	}
	var b strings.Builder
	b.WriteString(indent + "/**\n")
	for _, l := range all {
		b.WriteString(strings.TrimRight(indent+" * "+l, " ") + "\n")
	}
	b.WriteString(indent + " */\n")
	return b.String()
}

// maxText bounds a description in a module, in characters. The whole text is in
// tools.json.
const maxText = 4000

// short is text of at most n characters.
func short(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + " …"
}

// firstLine is the first line of a description, for lists.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return plain(short(strings.TrimSpace(line), 200))
}
