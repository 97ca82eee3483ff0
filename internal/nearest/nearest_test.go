package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	names := []string{"memory", "time", "cpu-time", "pids", "read-only", "weak-limits", "weak-binds"}
	for word, want := range map[string]string{
		"memory": "memory", "memroy": "memory", "memor": "memory", "memmory": "memory", "Memory": "memory", "mem": "memory",
		"tme": "time", "cputime": "cpu-time", "CPU_TIME": "cpu-time", "pid": "pids", "readonly": "read-only",
		"": "", "weak": "", "network": "", "x": "", "zzzz": "", "mo": "", strings.Repeat("memory", 20): "",
	} {
		got, ok := Word(word, names)
		if got != want || ok != (want != "") {
			t.Errorf("Word(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
	if got, ok := Word("ab", []string{strings.Repeat("x", 1<<20), "ac", "ad"}); got != "ac" || !ok {
		t.Errorf("of equally near candidates Word took %q, want the first", got)
	}
	if got, ok := Word("ab", nil); ok {
		t.Errorf("Word of no candidates = %q", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
