package safeterm

import "fmt"

// text is the dialect of NewText.
type text struct {
	// coloured is set once a colour sequence has passed.
	coloured bool
}

func (*text) control(out []byte, c byte) []byte { return fmt.Appendf(out, `\x%02x`, c) }
func (*text) invalid(out []byte, c byte) []byte { return fmt.Appendf(out, `\x%02x`, c) }

func (*text) rune(out []byte, r rune) []byte {
	if r > 0xffff {
		return fmt.Appendf(out, `\U%08x`, r)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

func (t *text) csi(out []byte, seq []byte) []byte {
	if !isColour(seq) {
		return t.broken(out, seq)
	}
	t.coloured = true
	return append(out, seq...)
}

func (t *text) escape(out []byte, seq []byte) []byte { return t.broken(out, seq) }

// broken shows a sequence: once its ESC is visible the rest is plain text.
func (t *text) broken(out []byte, seq []byte) []byte {
	return append(t.control(out, seq[0]), seq[1:]...)
}

func (*text) swallows() swallow { return showStrings }

func (t *text) end(out []byte) []byte {
	if !t.coloured {
		return out
	}
	t.coloured = false
	return append(out, "\x1b[0m"...)
}

// isColour says whether seq is ESC [ digits and separators m (SGR). A private
// prefix or an intermediate makes it another sequence.
func isColour(seq []byte) bool {
	last := len(seq) - 1
	if seq[last] != 'm' {
		return false
	}
	for _, c := range seq[2:last] {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}
