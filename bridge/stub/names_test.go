package stub

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/internal/testenv"
)

func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]string{
		"get_x": "get_x", "get-x": "get_x", "a.b/c": "a_b_c", "1st": "_1st", "": "_", "import": "import_", "list": "list_", "async": "async_",
		"constructor": "constructor_", "__proto__": "__proto___", "__init__": "__init___", "../x": "___x", "then": "then_", "überzahl": "überzahl",
		"日本語": "日本語", "ﬁ": "_", "a b": "a_b", "map": "map_", "class_": "class_",
	} {
		if got := identifier(name); got != want {
			t.Errorf("identifier(%q) = %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"id": "id", "type": "type", "from": "from_", "_call": "_call_", "a-b": "a_b", "None": "None_"} {
		if got := parameter(name); got != want {
			t.Errorf("parameter(%q) = %q, want %q", name, got, want)
		}
	}
}

// Every letter that stays is a letter for Python and not changed by it, and
// every builtin and keyword of it is reserved.
func TestIdentifiersInPython(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	var letters strings.Builder
	for r := rune(0x80); r < 0x30000; r++ {
		if steady(r) {
			letters.WriteRune(r)
		}
	}
	program := `
import builtins, keyword, sys, unicodedata
for c in sys.argv[1]:
    if not c.isidentifier() or unicodedata.normalize("NFKC", c) != c:
        print("U+%04X" % ord(c))
print(*[n for n in dir(builtins) + keyword.kwlist if not n.startswith("__")])`
	out, err := exec.Command("/usr/bin/python3", "-c", program, letters.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, l := range lines[:len(lines)-1] {
		t.Errorf("%s is not the same letter in Python", l)
	}
	for _, name := range strings.Fields(lines[len(lines)-1]) {
		if !reserved()[name] {
			t.Errorf("Python's %s is not reserved", name)
		}
	}
}

func TestIdentifiersInJavaScript(t *testing.T) {
	testenv.Require(t, testenv.Node)
	var checks strings.Builder
	for r := rune(0x80); r < 0x30000; r++ {
		if steady(r) {
			fmt.Fprintf(&checks, "%c", r)
		}
	}
	program := `for (const c of process.argv[1]) if (!/^\p{ID_Start}$/u.test(c)) console.log(c.codePointAt(0).toString(16))`
	out, err := exec.Command("node", "-e", program, checks.String()).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("no letters in JavaScript (%v): %s", err, out)
	}
}
