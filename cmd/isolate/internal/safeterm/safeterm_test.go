package safeterm

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// filter writes in to a Writer made by make, in pieces of n bytes.
func filter(t testing.TB, make func(*bytes.Buffer) *Writer, in string, n int) string {
	t.Helper()
	var out bytes.Buffer
	w := make(&out)
	for rest := in; rest != ""; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		if got, err := w.Write([]byte(piece)); got != len(piece) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", piece, got, err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatalf("End: %v", err)
	}
	return out.String()
}

func asText(b *bytes.Buffer) *Writer   { return NewText(b) }
func asScreen(b *bytes.Buffer) *Writer { return NewScreen(b) }

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "hello\tworld\r\n", "hello\tworld\r\n"},
		{"utf8", "grüße 世界 🙂\n", "grüße 世界 🙂\n"},
		{"joiner", "👩\u200d💻", "👩\u200d💻"},
		{"colour", "\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"},
		{"colour rgb", "\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx\x1b[0m"},
		{"colour short", "\x1b[mx", "\x1b[mx\x1b[0m"},
		{"private m is no colour", "\x1b[>4;2m", `\x1b[>4;2m`},
		{"intermediate m is no colour", "\x1b[1 m", `\x1b[1 m`},
		{"bell and backspace", "a\a\b\x7f\x00", `a\x07\x08\x7f\x00`},
		{"clear screen", "\x1b[2J\x1b[H", `\x1b[2J\x1b[H`},
		{"title", "\x1b]0;owned\a", `\x1b]0;owned\x07`},
		{"clipboard", "\x1b]52;c;cm0gLXJm\x1b\\", `\x1b]52;c;cm0gLXJm\x1b\`},
		{"link", "\x1b]8;;http://x\x1b\\y", `\x1b]8;;http://x\x1b\y`},
		{"device control", "\x1bP+q544e\x1b\\", `\x1bP+q544e\x1b\`},
		{"reset", "\x1bc", `\x1bc`},
		{"title report", "\x1b[21t", `\x1b[21t`},
		{"alternate screen", "\x1b[?1049h", `\x1b[?1049h`},
		{"C1 in one byte", "\x9b2J", `\x9b2J`},
		{"C1 as a character", "\u009d0;t\u009c", `\u009d0;t\u009c`},
		{"reversed reading order", "a\u202eb", `a\u202eb`},
		{"tag character", "\U000e0041", `\U000e0041`},
		{"line separator", "\u2028", `\u2028`},
		{"invalid", "\xff\xc0\x80", `\xff\xc0\x80`},
		{"surrogate", "\xed\xa0\x80", `\xed\xa0\x80`},
		{"character cut by another", "\xe4\xb8a", `\xe4\xb8a`},
		{"character cut by the end", "\xf0\x9f", `\xf0\x9f`},
		{"sequence cut by the end", "\x1b[31", `\x1b[31`},
		{"escape at the end", "x\x1b", `x\x1b`},
		{"escape twice", "\x1b\x1b[31m", `\x1b` + "\x1b[31m\x1b[0m"},
		{"control inside a sequence", "\x1b[3\a1m", `\x1b[3\x071m`},
		{"line feed inside a sequence", "\x1b[3\n1m", `\x1b[3` + "\n1m"},
		{"endless sequence", "\x1b[" + strings.Repeat("1;", 100) + "m", `\x1b[` + strings.Repeat("1;", 100) + "m"},
		{"replacement character itself", "\ufffd", "\ufffd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{len(c.in), 1, 3} {
				if got := filter(t, asText, c.in, n); got != c.want {
					t.Errorf("in pieces of %d: got %q, want %q", n, got, c.want)
				}
			}
		})
	}
}

// back is what every used screen ends with.
const back = "\x1b[4l\x1b>\x0f\x1b(B\x1b[0m"

func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain text changes nothing", "hello\r\n", "hello\r\n"},
		{"line editor", "\b \b\a", "\b \b\a" + back},
		{"cursor and erase", "\x1b[2J\x1b[1;1H\x1b[K", "\x1b[2J\x1b[1;1H\x1b[K" + back},
		{"position question", "\x1b[6n", "\x1b[6n" + back},
		{"editor", "\x1b[?1049h\x1b[?25lx", "\x1b[?1049h\x1b[?25lx\x1b[?25h\x1b[?1049l" + back},
		{"editor that tidies", "\x1b[?1049h\x1b[?1049l", "\x1b[?1049h\x1b[?1049l" + back},
		{"mouse left on", "\x1b[?1000;1006h", "\x1b[?1000h\x1b[?1006h\x1b[?1000l\x1b[?1006l" + back},
		{"unknown mode", "\x1b[?9999h", ""},
		{"known beside unknown mode", "\x1b[?9999;2004h", "\x1b[?2004h\x1b[?2004l" + back},
		{"scrolling region", "\x1b[2;5r", "\x1b[2;5r\x1b7\x1b[r\x1b8" + back},
		{"cursor shape", "\x1b[5 q", "\x1b[5 q\x1b[0 q" + back},
		{"insert mode", "\x1b[4h", "\x1b[4h" + back},
		{"keyboard lock", "\x1b[2h", ""},
		{"line drawing", "\x1b(0q\x1b(B", "\x1b(0q\x1b(B" + back},
		{"title", "a\x1b]0;owned\ab", "ab"},
		{"clipboard", "a\x1b]52;c;cm0gLXJm\x1b\\b", "ab"},
		{"device control", "a\x1bP+q544e\x1b\\b", "ab"},
		{"application command", "a\x1b_G\x1b\\b", "ab"},
		{"string without end", "a\x1b]0;b\nc", "a"},
		{"string ended by another sequence", "\x1b]0;t\x1b[1mx", "\x1b[1mx" + back},
		{"string ended by CAN", "\x1b]0;t\x18x", "x"},
		{"window operation", "\x1b[21t\x1b[8;1;1t", ""},
		{"print", "\x1b[5i", ""},
		{"keyboard protocol", "\x1b[>1u\x1b[>4;2m", ""},
		{"C1 in one byte", "\x9d0;t\x9c", "\ufffd0;t\ufffd"},
		{"C1 as a character", "\u009d0;t\u009c", "\ufffd0;t\ufffd"},
		{"utf8", "世界", "世界"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{len(c.in), 1, 3} {
				if got := filter(t, asScreen, c.in, n); got != c.want {
					t.Errorf("in pieces of %d: got %q, want %q", n, got, c.want)
				}
			}
		})
	}
}

// TestCompleteAtOnce: what is complete does not wait for the next Write.
func TestCompleteAtOnce(t *testing.T) {
	var out bytes.Buffer
	w := NewText(&out)
	for _, s := range []string{"prompt> ", "é", "\x1b[32m", "."} {
		out.Reset()
		if _, err := w.Write([]byte(s)); err != nil || out.String() != s {
			t.Errorf("Write(%q) wrote %q, %v", s, out.String(), err)
		}
	}
}

type failing struct{ after int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestErrorStays(t *testing.T) {
	w := NewText(&failing{after: 1})
	if _, err := w.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := w.Write([]byte("b")); n != 0 || !errors.Is(err, errFull) {
			t.Errorf("Write = %d, %v, want 0, %v", n, err, errFull)
		}
	}
	if err := w.End(); !errors.Is(err, errFull) {
		t.Errorf("End = %v, want %v", err, errFull)
	}
}

// Neither filter may keep more than a sequence, whatever is written.
func TestMemoryIsBounded(t *testing.T) {
	for _, start := range []string{"\x1b[", "\x1b]", "\x1bP", "\x1b ", "\xf0"} {
		for _, w := range []*Writer{NewText(&bytes.Buffer{}), NewScreen(&bytes.Buffer{})} {
			_, _ = w.Write([]byte(start))
			for range 1000 {
				_, _ = w.Write([]byte("1111 1111"))
			}
			if len(w.seq) > maxSequence {
				t.Errorf("after %q: %d bytes kept", start, len(w.seq))
			}
		}
	}
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

func FuzzText(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[31mred", "\x1b]0;t\a", "\u202e\u009b", "\xe4\xb8", "\x1b[\x1b[1"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, in string, n int) {
		whole := filter(t, asText, in, len(in)+1)
		if n = n&0xff + 1; filter(t, asText, in, n) != whole {
			t.Errorf("in pieces of %d the result differs", n)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("not UTF-8: %q", whole)
		}
		for _, r := range sgr.ReplaceAllString(whole, "") {
			if r != '\n' && r != '\t' && r != '\r' && (r < ' ' || r >= 0x7f && r < 0xa0) {
				t.Fatalf("control %U in %q", r, whole)
			}
		}
	})
}

// forbidden are the introducers that no screen output may contain, and
// the C1 controls.
var forbidden = regexp.MustCompile(`\x1b[PX\]^_]|[\x{80}-\x{9f}]|\x1b\[[0-9;:]*[tixyq]|\x1b\[[<=>]`)

func FuzzScreen(f *testing.F) {
	for _, s := range []string{"plain\n", "\x1b[?1049h", "\x1b]0;t\a", "\x1bP\x1b\\", "\x1b \x1b]", "\x1b[5 q"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, in string, n int) {
		whole := filter(t, asScreen, in, len(in)+1)
		if n = n&0xff + 1; filter(t, asScreen, in, n) != whole {
			t.Errorf("in pieces of %d the result differs", n)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("not UTF-8: %q", whole)
		}
		if bad := forbidden.FindString(whole); bad != "" {
			t.Errorf("%q in %q", bad, whole)
		}
	})
}

func BenchmarkText(b *testing.B) {
	line := []byte(strings.Repeat("x", 79) + "\n")
	block := bytes.Repeat(line, 400)
	b.SetBytes(int64(len(block)))
	w := NewText(discard{})
	for b.Loop() {
		_, _ = w.Write(block)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
