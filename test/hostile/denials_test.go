package hostile

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

var update = flag.Bool("update", false, "rewrite docs/denials.md from the table")

// attack is one row of the table: a script and what it must be told.
type attack struct {
	script  string // in testdata/escape
	cases   string // ids of the specification, as in the script's first line
	attempt string // what the script tries, for people
	layer   string // what answers, outermost first
	source  string // where the attack was seen
	// answers is what the script prints in every profile: one attempt a line
	// and its answer after the last ": ". Lines of compat and strict replace
	// those for the same attempt in that profile.
	answers, compat, strict string
	// says replaces the list of answers in the document, where the answers of
	// the script are figures.
	says string
	// only lists the profiles it is run in; nil means all.
	only []policy.Profile
	// arch is the only GOARCH that has what the script tries; "" means all have.
	arch string
	// kills means that the attempt ends the program, with reason "policy".
	kills bool
	// recorded are the calls that must be in Result.Blocked, and how often.
	recorded map[string]int64
	// recordedStrict replaces recorded in profile strict.
	recordedStrict map[string]int64
	// args makes the script's arguments, policy changes the run's.
	args   func(t *testing.T) []string
	policy func(t *testing.T, p *isolate.Policy)
	// need are the features it needs beyond those of a lab.
	need []testenv.Feature
	// inTest names the test that runs the script where it is not enough to
	// run it in a sandbox and compare what it prints.
	inTest string
}

// Where the answers come from, in the words of docs/denials.md.
const (
	byFilter   = "seccomp filter"
	byRecorder = "seccomp filter, recorded"
	byNetwork  = "network namespace"
	byView     = "file view"
	byMount    = "read-only mounts"
	byCaps     = "no capabilities"
	byUserNS   = "user namespace"
	byPIDNS    = "PID namespace"
	byIPCNS    = "IPC namespace"
	byInit     = "init that is not dumpable"
	byRlimit   = "rlimits"
	byPlan     = "plan, before anything starts"
	byStart    = "start of the program"
	byCopy     = "copying out by handles"
	bySuper    = "supervisor"
)

// allDenials is the table, in the order of the document.
func allDenials() []attack {
	return slices.Concat(networkDenials, privilegeDenials, kernelDenials, filesDenials, procDenials, descriptorDenials, rootfsDenials)
}

// runDenials runs the scripts of a theme in every profile.
func runDenials(t *testing.T, list []attack) {
	outside.unreached(t)
	l := newLab(t)
	for _, d := range list {
		if d.inTest != "" || d.arch != "" && d.arch != runtime.GOARCH {
			continue
		}
		for _, p := range profiles {
			if d.only == nil || slices.Contains(d.only, p) {
				t.Run(d.script+"/"+p.String(), func(t *testing.T) { d.run(t, l, p) })
			}
		}
	}
}

func (d attack) run(t *testing.T, l *lab, profile policy.Profile) {
	testenv.Require(t, d.need...)
	p := isolate.Policy{Profile: profile}
	if d.policy != nil {
		d.policy(t, &p)
	}
	var args []string
	if d.args != nil {
		args = d.args(t)
	}
	res := l.run(t, p, script(t, d.script, args...))
	if d.kills {
		if res.Reason != isolate.ReasonPolicy {
			t.Errorf("ended with %s (%s), want policy", res.Reason, res.Detail)
		}
	} else if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
		t.Errorf("ended with %s %d: %s", res.Reason, res.ExitCode, res.Detail)
	}
	if len(res.Stderr.Kept) > 0 {
		t.Errorf("complains: %s", res.Stderr.Kept)
	}
	compareAnswers(t, d.wanted(profile), answersOf(string(res.Stdout.Kept)))
	d.compareRecord(t, res, profile)
	l.works(t)
}

// answer is one line of a script.
type answer struct{ attempt, got string }

func answersOf(text string) []answer {
	var all []answer
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if i := strings.LastIndex(line, ": "); i >= 0 {
			all = append(all, answer{line[:i], line[i+2:]})
		} else if line != "" {
			all = append(all, answer{line, ""})
		}
	}
	return all
}

// wanted are the answers of a profile.
func (d attack) wanted(p policy.Profile) []answer {
	other := answersOf(map[policy.Profile]string{policy.ProfileCompat: d.compat, policy.ProfileStrict: d.strict}[p])
	want := answersOf(d.answers)
	for _, o := range other {
		i := slices.IndexFunc(want, func(w answer) bool { return w.attempt == o.attempt })
		if i < 0 {
			want = append(want, answer{"(the table has no such attempt) " + o.attempt, o.got})
			continue
		}
		want[i].got = o.got
	}
	return want
}

func compareAnswers(t *testing.T, want, got []answer) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: not tried, want %s", want[i].attempt, want[i].got)
		case i >= len(want):
			t.Errorf("%s: %s, not in the table", got[i].attempt, got[i].got)
		case want[i] != got[i]:
			t.Errorf("%s: %s, want %s: %s", got[i].attempt, got[i].got, want[i].attempt, want[i].got)
		}
	}
}

// compareRecord checks that what the filter records is in the result, each
// event with the program's name and process id.
func (d attack) compareRecord(t *testing.T, res isolate.Result, p policy.Profile) {
	t.Helper()
	want := d.recorded
	if p == policy.ProfileStrict && d.recordedStrict != nil {
		want = d.recordedStrict
	}
	if !maps.Equal(want, res.Blocked.ByCall) && len(want)+len(res.Blocked.ByCall) > 0 {
		t.Errorf("recorded %v, want %v", res.Blocked.ByCall, want)
	}
	var sum int64
	for _, n := range want {
		sum += n
	}
	if res.Blocked.Total != sum || int64(len(res.Blocked.Events))+res.Blocked.Folded != sum {
		t.Errorf("recorded %d calls, %d listed and %d folded, want %d", res.Blocked.Total, len(res.Blocked.Events), res.Blocked.Folded, sum)
	}
	for _, e := range res.Blocked.Events {
		if e.PID <= 0 || e.Exe == "" || e.Errno == "" || e.Elapsed < 0 {
			t.Errorf("event lacks who did it: %+v", e)
		}
	}
}

// Every denial has its script, every script its row, and the first line of a
// script names the row's cases.
func TestEveryDenialHasAScript(t *testing.T) {
	files, err := filepath.Glob("testdata/escape/*.*")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, d := range allDenials() {
		if listed[d.script] {
			t.Errorf("%s has two rows", d.script)
		}
		listed[d.script] = true
		for field, text := range map[string]string{"cases": d.cases, "attempt": d.attempt, "layer": d.layer, "source": d.source} {
			if text == "" || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %s is %q", d.script, field, text)
			}
		}
		if d.answers == "" && !d.kills {
			t.Errorf("%s: no answers", d.script)
		}
		text, err := os.ReadFile(filepath.Join("testdata", "escape", d.script))
		if err != nil {
			t.Error(err)
			continue
		}
		first, _, _ := bytes.Cut(text, []byte("\n"))
		if want := d.cases + ": "; !strings.Contains(string(first), want) {
			t.Errorf("%s: the first line does not say %q: %s", d.script, want, first)
		}
	}
	for _, f := range files {
		if name := filepath.Base(f); !listed[name] && name != "escape.h" {
			t.Errorf("%s is in no row", name)
		}
	}
}

const (
	document = "../../docs/denials.md"
	begin    = "<!-- table: go test ./test/hostile -run TestDocument -update -->\n"
)

// The table of docs/denials.md is that of the tests.
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
	b.WriteString("| Attempt | Answer | Layer | Script | Cases | Source |\n|---|---|---|---|---|---|\n")
	for _, d := range allDenials() {
		fmt.Fprintf(&b, "| %s | %s | %s | [`%s`](../test/hostile/testdata/escape/%s) | %s | %s |\n",
			d.attempt, d.answerText(), d.layer, d.script, d.script, d.cases, d.source)
	}
	return b.String()
}

// answerText lists the different answers of a row, those of other profiles
// after their name.
func (d attack) answerText() string {
	if d.kills {
		return "killed, reason `policy`"
	}
	if d.says != "" {
		return d.says
	}
	text := distinct(answersOf(d.answers))
	for _, o := range []struct{ name, answers string }{{"compat", d.compat}, {"strict", d.strict}} {
		if o.answers != "" {
			text += "; " + o.name + ": " + distinct(answersOf(o.answers))
		}
	}
	return text
}

func distinct(all []answer) string {
	var text []string
	for _, a := range all {
		s := "`" + a.got + "`"
		if a.got != strings.ToUpper(a.got) {
			s = a.got
		}
		if !slices.Contains(text, s) {
			text = append(text, s)
		}
	}
	return strings.Join(text, ", ")
}
