package plaintext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain äöü 漢":           "plain äöü 漢",
		"a\nb\tc":               "a\nb\tc",
		"\x1b[31mred\x07\x00":   "\uFFFD[31mred\uFFFD\uFFFD",
		"a\u202eb\u2066c":       "a\uFFFDb\uFFFDc",
		"bad \xff\xfe":          "bad \uFFFD",
		strings.Repeat("ä", 50): strings.Repeat("ä", 15) + "…",
	} {
		if got := Clean(text, 31); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain äöü 漢字 é":  "plain äöü 漢字 é",
		"two\nlines":      "two\nlines",
		"\x1b]52;c;aGk\a": `\u001b]52;c;aGk\u0007`,
		"a\u202eb":        `a\u202eb`,
		"\u200b\u2028":    `\u200b\u2028`,
		"\u00a0\u3164":    `\u00a0\u3164`,
		"x\ufe0f\u2800":   `x\ufe0f\u2800`,
		"\U000e0041":      `\udb40\udc41`,
		"\xff\r":          `\xff\u000d`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("Visible(%q) = %q, want %q", text, got, want)
		}
	}
}

// What is shown of JSON is the same JSON.
func TestVisibleKeepsJSON(t *testing.T) {
	want := "a\u202e\u200b\U000e0041\u2028z"
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(Visible(string(b))), &got); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func FuzzPlainText(f *testing.F) {
	for _, text := range []string{"", "a\x1b[2J", "\u202e\xff", "\U000e0041"} {
		f.Add(text, 10)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(0, min(limit, 1000))
		if got := Clean(text, limit); !utf8.ValidString(got) || len(got) > 3*limit+3 {
			t.Fatalf("Clean(%q, %d) = %q", text, limit, got)
		}
		if got := Visible(text); !utf8.ValidString(got) || Visible(got) != got {
			t.Fatalf("Visible(%q) = %q", text, got)
		}
	})
}
