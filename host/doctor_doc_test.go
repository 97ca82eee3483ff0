package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	doctorDoc  = "../docs/doctor.md"
	tableBegin = "<!-- The table is written by go test ./host -update. -->\n"
	tableEnd   = "<!-- End of the table. -->\n"
)

// TestDoctorDocument keeps the table of docs/doctor.md the one of checks.go
// and words.go.
func TestDoctorDocument(t *testing.T) {
	needSource(t)
	b, err := os.ReadFile(doctorDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(b), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", doctorDoc)
	}
	want := checkTable()
	if *update {
		if err := os.WriteFile(doctorDoc, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of %s differs; run go test ./host -update\n%s", doctorDoc, firstDifference(table, want))
	}
}

// needSource skips where the test binary travelled without the source.
func needSource(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("words.go"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the source tree")
	}
}

func checkTable() string {
	var b strings.Builder
	b.WriteString("| id | what it probes | a failure | remedy |\n|---|---|---|---|\n")
	for _, sec := range sections() {
		for _, l := range sec.looks {
			e := l.entry
			fmt.Fprintf(&b, "| `%s` | %s: %s | %s | %s |\n", e.id, e.title, e.probes, effectText(e), remedies(e))
		}
	}
	return b.String()
}

func effectText(e *entry) string {
	switch e.block {
	case BlockAlways:
		return "refuses runs"
	case BlockUnlessAllowed:
		return "refuses runs without `--allow " + e.allow + "`"
	}
	return "advice"
}

// remedies are those of every fault a check has words for, each with what it
// is for if there are several.
func remedies(e *entry) string {
	if e == &cgroupPIDs || e == &cgroupCPU {
		return "as `cgroup.memory`"
	}
	var words []*fault
	for _, w := range worded {
		if (w.entry == e || e == &cgroupMemory && slices.Contains(cgroupTrio, w.entry)) && w.words != &noAnswer && w.words.remedy != "" && !slices.Contains(words, w.words) {
			words = append(words, w.words)
		}
	}
	var texts []string
	for _, f := range words {
		r := f.remedy
		if len(words) > 1 {
			r = f.what + ": " + r
		}
		texts = append(texts, strings.NewReplacer(
			"{user}", "USER", "{uid}", "UID", "{dir}", "DIR", "{log}", "LOG", "{key}", "KEY", "|", "\\|", "<", "&lt;",
			"{controller}", strings.TrimPrefix(e.id, "cgroup."), "{since}", featureOf(e.featureName()).since,
		).Replace(r))
	}
	if len(texts) == 0 {
		return "–"
	}
	return strings.Join(texts, "<br>") + consent(e)
}
