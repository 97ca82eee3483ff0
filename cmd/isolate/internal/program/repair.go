package program

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RepairChars is how many characters of standard error a model gets to see.
const RepairChars = 800

// Failure is a run that failed, for RepairPrompt.
type Failure struct {
	// How is one phrase: "exit code 1".
	How string
	// Calls is one phrase on the tools that were called: "2 done, 1 refused".
	// Empty means that there were no tools.
	Calls string
	// Tools are the signatures of the tools there were, for the language of the
	// program, each with its types on lines of their own. Types are told where
	// all of it fits, and of many signatures only the first.
	Tools []string
	// Stderr is the end of standard error, RepairBytes of it or all.
	Stderr []byte
}

// RepairBytes is how many bytes RepairChars characters have at most.
const RepairBytes = RepairChars * utf8.UTFMax

// RepairPrompt says to the model that wrote a program how it failed. The
// program's words are one literal on a line of its own, in which nothing but
// plain characters stands, so that they can neither end the literal nor be
// taken for ours:
//
//	The program failed: exit code 1.
//	Calls of tools: 2 done.
//	The last 800 characters of its standard error, as a JSON string:
//	"Traceback …\nKeyError: 'eu'\n"
//	The tools it can call, each as a JSON string:
//	"get_invoice(*, number: str) -> GetInvoiceResult\nGetInvoiceResult = {\"total\": int}"
//	Correct the program and answer with the whole program.
//
// What is about tools is left out where there were none, and for an empty
// standard error one line says so.
func RepairPrompt(f Failure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The program failed: %s.\n", f.How)
	if f.Calls != "" {
		fmt.Fprintf(&b, "Calls of tools: %s.\n", f.Calls)
	}
	if text := lastChars(f.Stderr, RepairChars); text == "" {
		b.WriteString("It wrote nothing to standard error.\n")
	} else {
		fmt.Fprintf(&b, "The last %d characters of its standard error, as a JSON string:\n%s\n", RepairChars, quote(text))
	}
	writeTools(&b, f.Tools)
	b.WriteString("Correct the program and answer with the whole program.\n")
	return b.String()
}

// toolBytes bounds the signatures in a prompt.
const toolBytes = 8 << 10

func writeTools(b *strings.Builder, tools []string) {
	if len(tools) == 0 {
		return
	}
	b.WriteString("The tools it can call, each as a JSON string:\n")
	total := 0
	for _, t := range tools {
		total += len(quoteValid(t))
	}
	left := toolBytes
	for i, t := range tools {
		if total > toolBytes {
			t, _, _ = strings.Cut(t, "\n")
		}
		line := quoteValid(t)
		if left -= len(line); left < 0 {
			fmt.Fprintf(b, "and %d more\n", len(tools)-i)
			return
		}
		b.WriteString(line + "\n")
	}
}

func quoteValid(text string) string { return quote(strings.ToValidUTF8(text, "\uFFFD")) }

// lastChars is the end of a text, n characters of it. A byte that is no part
// of one counts as one, and a row of them is shown as one U+FFFD.
func lastChars(text []byte, n int) string {
	at := len(text)
	for ; at > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:at])
		at -= size
	}
	return strings.ToValidUTF8(string(text[at:]), "\uFFFD")
}

// quote writes text as a JSON string of characters that can be seen and have
// no meaning to a terminal or to the direction of text.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Tail keeps the last bytes that are written to it. It is not safe for
// concurrent use.
type Tail struct {
	// Size is how many bytes are kept.
	Size int
	kept []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if n >= t.Size {
		t.kept = append(t.kept[:0], p[n-t.Size:]...)
		return n, nil
	}
	if over := len(t.kept) + n - 2*t.Size; over > 0 {
		// moved at most once for every Size bytes
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.Size:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// Bytes are the last Size bytes, or all.
func (t *Tail) Bytes() []byte { return t.kept[max(0, len(t.kept)-t.Size):] }
