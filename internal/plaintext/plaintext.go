// Package plaintext makes text that nobody trusts fit to be shown: Clean for a
// text that is passed on, Visible for a text that a person decides by.
//
// It knows no terminals: filtering a stream is package safeterm's work. It
// needs no kernel.
package plaintext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clean is text as valid UTF-8 of at most limit bytes and a mark of the cut,
// with U+FFFD for control characters other than tab and line feed, and for
// those that change the direction of text.
func Clean(text string, limit int) string {
	cut := ""
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text, cut = text[:limit], "…"
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")) + cut
}

// Visible replaces whatever a person would not see, or not see where it
// stands: control, format and direction characters, fillers, variation
// selectors, spaces other than the common one, bytes that are no UTF-8. They
// become \uXXXX, as JSON writes them, so JSON stays the same value. Line feeds
// stay.
func Visible(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || seen(r):
			b.WriteString(text[i : i+size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// seen says whether r leaves a mark on the screen, in its place.
func seen(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && r != '\u2800'
}
