package safeterm

import (
	"bytes"
	"sort"
	"strconv"
)

// screen is the dialect of NewScreen. It remembers the private modes the
// program changed, so that end can change them back.
type screen struct {
	// used is set once any sequence has passed.
	used bool
	// scrolled is set once the scrolling region was set, shaped once the
	// shape of the cursor was.
	scrolled, shaped bool
	// on holds the private modes that differ from their usual state, with
	// their present state. It holds only modes listed in usual.
	on map[int]bool
}

// usual are the private modes a program may change, with the state a shell
// expects. Numbers are those of xterm's control sequence reference.
var usual = map[int]bool{
	1:    false, // application cursor keys
	5:    false, // reverse video
	6:    false, // origin mode
	7:    true,  // autowrap
	12:   false, // blinking cursor
	25:   true,  // cursor is shown
	45:   false, // reverse wraparound
	47:   false, // alternate screen, oldest form
	66:   false, // application keypad
	1000: false, // mouse: press and release
	1002: false, // mouse: drag
	1003: false, // mouse: all motion
	1004: false, // focus events
	1005: false, // mouse: UTF-8 coordinates
	1006: false, // mouse: SGR coordinates
	1007: false, // mouse: wheel as cursor keys
	1015: false, // mouse: urxvt coordinates
	1047: false, // alternate screen
	1048: false, // saved cursor
	1049: false, // alternate screen with saved cursor
	2004: false, // bracketed paste
	2026: false, // synchronised output
}

func (s *screen) control(out []byte, c byte) []byte {
	s.used = true
	return append(out, c)
}

func (s *screen) rune(out []byte, r rune) []byte {
	if r < 0xa0 {
		return append(out, "\ufffd"...) // C1: a control sequence in one character
	}
	return append(out, string(r)...)
}

func (s *screen) invalid(out []byte, _ byte) []byte { return append(out, "\ufffd"...) }

func (s *screen) broken(out []byte, _ []byte) []byte { return out }

func (s *screen) swallows() swallow { return dropStrings }

// escape passes what moves the cursor, sets tabs, or selects a character set.
// Dropped are string sequences with an intermediate and everything rare.
func (s *screen) escape(out []byte, seq []byte) []byte {
	final := seq[len(seq)-1]
	var known bool
	switch {
	case len(seq) == 2:
		known = bytes.IndexByte([]byte("78=>DEHMNOc"), final) >= 0
	case len(seq) == 3:
		known = bytes.IndexByte([]byte("()*+-./#"), seq[1]) >= 0
	}
	if !known {
		return out
	}
	s.used = true
	return append(out, seq...)
}

// csi passes a sequence whose final byte acts on the screen only.
func (s *screen) csi(out []byte, seq []byte) []byte {
	params, final := seq[2:len(seq)-1], seq[len(seq)-1]
	kind := byte(0)
	if len(params) > 0 && (params[0] < '0' || params[0] > ';') {
		kind = params[0] // a private prefix, or an intermediate without parameters
	}
	if kind == '?' && (final == 'h' || final == 'l') {
		return s.modes(out, params[1:], final)
	}
	if !s.acts(params, kind, final) {
		return out
	}
	s.used = true
	return append(out, seq...)
}

// acts says whether a sequence is on the list of those that pass: cursor,
// erasing, inserting, deleting, scrolling, tabs, colours, and the questions for
// position and type that line editors ask.
func (s *screen) acts(params []byte, kind, final byte) bool {
	switch {
	case kind == 0 && !hasIntermediate(params):
		switch final {
		case 'r':
			s.scrolled = true
		case 'h', 'l':
			return string(params) == "4" // insert mode; others lock the keyboard or echo
		}
		return bytes.IndexByte([]byte("@ABCDEFGHIJKLMPSTXZ`abcdefgmnrsu"), final) >= 0
	case kind == '?' && !hasIntermediate(params[1:]):
		return bytes.IndexByte([]byte("JKn"), final) >= 0
	case bytes.HasSuffix(params, []byte(" ")) && final == 'q':
		s.shaped = true
		return true
	case kind == '!' && len(params) == 1:
		return final == 'p' // soft reset
	}
	return false
}

func hasIntermediate(params []byte) bool {
	for _, c := range params {
		if c < '0' || c > ';' {
			return true
		}
	}
	return false
}

// modes passes the modes of usual out of a list such as "1049;25" and
// remembers them.
func (s *screen) modes(out, params []byte, final byte) []byte {
	for _, text := range bytes.Split(params, []byte(";")) {
		n, err := strconv.Atoi(string(text))
		normal, known := usual[n]
		if err != nil || !known {
			continue
		}
		state := final == 'h'
		if s.on == nil {
			s.on = make(map[int]bool)
		}
		if state == normal {
			delete(s.on, n)
		} else {
			s.on[n] = state
		}
		s.used = true
		out = appendMode(out, n, state)
	}
	return out
}

func appendMode(out []byte, n int, state bool) []byte {
	out = append(out, "\x1b[?"...)
	out = strconv.AppendInt(out, int64(n), 10)
	if state {
		return append(out, 'h')
	}
	return append(out, 'l')
}

// end puts back what the program left changed, in an order that lets the main
// screen get the final colours and character set.
func (s *screen) end(out []byte) []byte {
	if !s.used {
		return out
	}
	changed := make([]int, 0, len(s.on))
	for n := range s.on {
		changed = append(changed, n)
	}
	sort.Ints(changed)
	for _, n := range changed {
		out = appendMode(out, n, !s.on[n])
	}
	if s.scrolled {
		out = append(out, "\x1b7\x1b[r\x1b8"...) // setting the region moves the cursor
	}
	if s.shaped {
		out = append(out, "\x1b[0 q"...)
	}
	*s = screen{}
	// Insert mode off, keypad normal, first character set ASCII, no colours.
	return append(out, "\x1b[4l\x1b>\x0f\x1b(B\x1b[0m"...)
}
