package program

import (
	"bytes"
	"strings"
)

// Reply takes the program out of a model's reply: the first fenced block with
// a tag of the language, or without any tag; else all of the reply. Without a
// language the first block with a tag of some language says which it is.
func Reply(text []byte, lang string) (code []byte, language string) {
	if lang == "" {
		for _, b := range blocks(text) {
			if l := Language(b.tag); l != "" {
				return b.code, l
			}
		}
	}
	for _, b := range blocks(text) {
		if b.tag == "" || lang != "" && Language(b.tag) == lang {
			return b.code, lang
		}
	}
	return text, lang
}

// block is a fenced block as Markdown has it.
type block struct {
	tag  string // the first word behind the fence, in lower case
	code []byte
}

// blocks finds the fenced blocks of a text. One without end goes to the end of
// the text: replies are cut off.
func blocks(text []byte) (list []block) {
	var open *block
	var fence string
	for line := range bytes.Lines(text) {
		mark, rest := fenceOf(line)
		switch {
		case open == nil && mark != "" && !(mark[0] == '`' && strings.Contains(rest, "`")):
			tag, _, _ := strings.Cut(rest, " ")
			list = append(list, block{tag: strings.ToLower(strings.Trim(tag, "{}."))})
			open, fence = &list[len(list)-1], mark
		case open != nil && mark != "" && mark[0] == fence[0] && len(mark) >= len(fence) && rest == "":
			open = nil
		case open != nil:
			open.code = append(open.code, line...)
		}
	}
	return list
}

// fenceOf takes a line apart that begins with a fence; mark is empty if it
// does not.
func fenceOf(line []byte) (mark, rest string) {
	s := strings.TrimRight(string(line), " \t\r\n")
	inner := strings.TrimLeft(s, " ")
	if len(s)-len(inner) > 3 || inner == "" || inner[0] != '`' && inner[0] != '~' {
		return "", ""
	}
	rest = strings.TrimLeft(inner, inner[:1])
	mark = inner[:len(inner)-len(rest)]
	if len(mark) < 3 {
		return "", ""
	}
	return mark, strings.TrimSpace(rest)
}
