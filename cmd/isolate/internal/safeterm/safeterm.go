// Package safeterm writes the output of a program nobody trusts to a terminal
// without letting that program drive the terminal.
//
// A terminal obeys bytes: they can retitle the window, fill the clipboard,
// print, answer a query by typing into the user's shell, or hide what was
// written before. The package has two filters. NewText is for output that is
// meant to be read: text and colours pass, every other control is made
// visible. NewScreen is for a program that the user gave a terminal of its
// own: it may move the cursor and use the screen, but not reach past it, and
// End puts back what it left changed.
//
// It does not emulate a terminal and does not limit how much is written. It
// needs no kernel and starts no goroutine.
package safeterm

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// maxSequence bounds a control sequence in bytes. Longer ones are no
// sequence that a terminal has a use for.
const maxSequence = 64

// Writer filters what is written to it. It is not safe for concurrent use;
// two streams that share a terminal need a Writer each.
type Writer struct {
	dst io.Writer
	as  dialect
	st  state
	// seq holds the bytes of a control sequence, or of a character, whose
	// end has not been written yet. It never passes maxSequence bytes.
	seq []byte
	out []byte
	err error
}

// dialect is what the two filters differ in. A method appends what is to be
// written to out and returns it.
type dialect interface {
	// control handles one control byte (C0 or DEL) other than ESC.
	control(out []byte, c byte) []byte
	// rune handles a character that is not printable.
	rune(out []byte, r rune) []byte
	// invalid handles a byte that is not UTF-8.
	invalid(out []byte, c byte) []byte
	// csi handles a complete sequence ESC [ … final.
	csi(out []byte, seq []byte) []byte
	// escape handles a complete ESC, intermediates, final.
	escape(out []byte, seq []byte) []byte
	// broken handles the start of a sequence that did not become one.
	broken(out []byte, seq []byte) []byte
	// swallows says whether the body of a string sequence (OSC, DCS, SOS,
	// PM, APC) is dropped up to its end.
	swallows() swallow
	// end is written last.
	end(out []byte) []byte
}

type swallow int

const (
	showStrings swallow = iota
	dropStrings
)

type state int

const (
	ground    state = iota
	character       // inside a character of several bytes
	escape          // after ESC
	csi             // after ESC [
	str             // inside OSC, DCS, SOS, PM or APC that is dropped
)

// NewText returns a Writer for output that is meant to be read. Printable
// text, tab, line feed, carriage return and colour sequences (SGR) pass; every
// other control appears as an escape such as \x1b. Any bytes written give
// valid UTF-8.
func NewText(dst io.Writer) *Writer { return &Writer{dst: dst, as: &text{}} }

// NewScreen returns a Writer for a program that was given a terminal of its
// own. Control sequences that act on the screen pass; those that reach past
// it are dropped: all string sequences (titles, clipboard, palette, links),
// window operations, printing, and keyboard protocols.
func NewScreen(dst io.Writer) *Writer { return &Writer{dst: dst, as: &screen{}} }

// Write filters p and writes the result with one call. What is not complete
// yet, a character or a sequence, is kept for the next Write. An error of the
// destination is returned by this and every later call.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.out = w.out[:0]
	for i := 0; i < len(p); {
		if w.st == ground {
			if n := plainRun(p[i:]); n > 0 {
				w.out = append(w.out, p[i:i+n]...)
				i += n
				continue
			}
		}
		w.step(p[i])
		i++
	}
	if w.flush(); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// End writes what is still kept and restores what the program changed of the
// terminal. It does not close the destination. Nothing is written after it.
func (w *Writer) End() error {
	if w.err != nil {
		return w.err
	}
	w.out = w.out[:0]
	switch w.st {
	case character:
		w.brokenCharacter()
	case escape, csi:
		w.out = w.as.broken(w.out, w.seq)
	}
	w.st, w.seq = ground, w.seq[:0]
	w.out = w.as.end(w.out)
	w.flush()
	return w.err
}

func (w *Writer) flush() {
	if len(w.out) == 0 {
		return
	}
	_, w.err = w.dst.Write(w.out)
	if cap(w.out) > 1<<20 {
		w.out = nil // one large write must not keep its buffer for good
	}
}

// plainRun is the length of the prefix of p that passes in every dialect.
func plainRun(p []byte) int {
	for i, c := range p {
		if (c < ' ' && c != '\n' && c != '\t' && c != '\r') || c >= 0x7f {
			return i
		}
	}
	return len(p)
}

// step takes one byte through the state machine of ECMA-48 as terminals
// implement it: a control byte inside a sequence ends it, ESC starts anew.
func (w *Writer) step(c byte) {
	switch w.st {
	case ground:
		w.stepGround(c)
	case character:
		w.stepCharacter(c)
	case escape:
		w.stepEscape(c)
	case csi:
		w.stepCSI(c)
	case str:
		w.stepString(c)
	}
}

func (w *Writer) stepGround(c byte) {
	switch {
	case c == 0x1b:
		w.start(escape, c)
	case c >= utf8.RuneSelf:
		w.start(character, c)
		w.finishCharacter()
	case plainRun([]byte{c}) == 1:
		w.out = append(w.out, c)
	default:
		w.out = w.as.control(w.out, c)
	}
}

func (w *Writer) start(st state, c byte) {
	w.st, w.seq = st, append(w.seq[:0], c)
}

func (w *Writer) stepCharacter(c byte) {
	if utf8.RuneStart(c) {
		w.brokenCharacter()
		w.again(c)
		return
	}
	w.seq = append(w.seq, c)
	w.finishCharacter()
}

// finishCharacter ends the character in seq if it is complete or cannot
// become one any more.
func (w *Writer) finishCharacter() {
	if !utf8.FullRune(w.seq) {
		return
	}
	r, n := utf8.DecodeRune(w.seq)
	if r == utf8.RuneError && n <= 1 {
		w.brokenCharacter()
		return
	}
	if printable(r) {
		w.out = append(w.out, w.seq...)
	} else {
		w.out = w.as.rune(w.out, r)
	}
	w.st = ground
}

func (w *Writer) brokenCharacter() {
	for _, c := range w.seq {
		w.out = w.as.invalid(w.out, c)
	}
	w.st = ground
}

// printable says whether a terminal shows r and does nothing else with it.
// Controls (C0, C1) and format characters are not printable: the latter
// include those that reverse the order of what is read. The two joiners are
// format characters that scripts and emoji need.
func printable(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == zeroWidthNonJoiner || r == zeroWidthJoiner
}

func (w *Writer) stepEscape(c byte) {
	switch {
	case len(w.seq) == 1 && c == '[':
		w.seq = append(w.seq, c)
		w.st = csi
	case len(w.seq) == 1 && startsString(c) && w.as.swallows() == dropStrings:
		w.start(str, c)
	case c >= 0x20 && c <= 0x2f && len(w.seq) < maxSequence: // intermediate
		w.seq = append(w.seq, c)
	case c >= 0x30 && c <= 0x7e: // final
		w.seq = append(w.seq, c)
		w.st = ground
		w.out = w.as.escape(w.out, w.seq)
	default:
		w.breakOff(c)
	}
}

// startsString says whether ESC c begins a DCS, SOS, OSC, PM or APC.
func startsString(c byte) bool {
	switch c {
	case 'P', 'X', ']', '^', '_':
		return true
	}
	return false
}

func (w *Writer) stepCSI(c byte) {
	switch {
	case c >= 0x20 && c <= 0x3f && len(w.seq) < maxSequence: // parameter, intermediate
		w.seq = append(w.seq, c)
	case c >= 0x40 && c <= 0x7e: // final
		w.seq = append(w.seq, c)
		w.st = ground
		w.out = w.as.csi(w.out, w.seq)
	default:
		w.breakOff(c)
	}
}

// stepString drops the body of a string sequence. ESC ends it, with or
// without the backslash that makes it a proper end, and so do CAN and SUB.
// BEL ends an OSC in every terminal; ending the others too drops less.
func (w *Writer) stepString(c byte) {
	switch c {
	case 0x1b:
		w.start(escape, c)
	case 0x07, 0x18, 0x1a:
		w.st = ground
	}
}

// breakOff ends a sequence that c is no part of and takes c as the first byte
// of what follows.
func (w *Writer) breakOff(c byte) {
	w.out = w.as.broken(w.out, w.seq)
	w.again(c)
}

func (w *Writer) again(c byte) {
	w.st = ground
	w.stepGround(c)
}
