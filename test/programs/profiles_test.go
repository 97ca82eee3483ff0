package programs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/profiles.md from the table")

const (
	document = "../../docs/profiles.md"
	begin    = "<!-- table: go test ./test/programs -run TestDocument -update -->\n"
)

// docs/profiles.md says what these tests check.
func TestDocument(t *testing.T) {
	old, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, table, found := strings.Cut(string(old), begin)
	if !found {
		t.Fatalf("%s has no line %q", document, begin)
	}
	want := tableText()
	if *update {
		if err := os.WriteFile(document, []byte(head+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s is not what the tests check; go test with -update rewrites it", document)
	}
}

func tableText() string {
	var b strings.Builder
	b.WriteString("| Program | What it does | default, compat | strict |\n|---|---|---|---|\n")
	for _, p := range programs {
		strict := "runs"
		if p.strict != nil {
			strict = fmt.Sprintf("fails: `%s`; lacks %s", p.strict.says, p.strict.because)
		}
		fmt.Fprintf(&b, "| [%s](../test/programs/testdata/%s) | %s | runs | %s |\n", p.name, p.file, p.does, strict)
	}
	return b.String()
}

// Names are those of subtests and of the document; every file is run.
func TestTable(t *testing.T) {
	names, files := []string{}, []string{"hoarder.py"}
	for _, p := range programs {
		if slices.Contains(names, p.name) {
			t.Errorf("two programs are named %s", p.name)
		}
		names, files = append(names, p.name), append(files, p.file)
		if p.prints == "" {
			t.Errorf("%s prints nothing: it could end early unseen", p.name)
		}
	}
	have, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range have {
		if !slices.Contains(files, filepath.Base(f)) {
			t.Errorf("%s is run by no test", f)
		}
	}
}
