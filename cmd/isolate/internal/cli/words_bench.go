package cli

import (
	"fmt"
	"strings"

	"github.com/isolate-run/isolate/bench/compare"
	"github.com/isolate-run/isolate/policy"
)

// What is said of the comparison with other programs. The rules of words.go
// hold.

const benchShort = "Measure isolate beside other sandboxes on this machine"

const benchLong = `bench runs the same programs bare, with isolate, and with other sandboxes and
container run-times that are installed, in turn, and prints how long each took,
in tables of Markdown, with the layers that each had between the program and the
host. What is not installed, or does not work here, is a row that says so.

Only ratios within one run mean something, and only on a machine that does
nothing else. docs/benchmarks.md says what each row is. All of it takes a quarter
of an hour; --only, --beside, --rounds and --quick make it less.`

const benchOut = "write bench.json, bench.md and the plot bench.svg to this directory too"

// benchFlagHelp is the help of the flags that only bench has.
func benchFlagHelp() map[string]string {
	return map[string]string{
		"rounds": fmt.Sprintf("runs of each short program by each contender; long ones run less often (default %d)", compare.DefaultRounds),
		"only":   "what is measured: " + strings.Join(compare.Workloads(), ", ") + " (default: all)",
		"beside": "who takes part beside fork+exec: " + strings.Join(compare.Contenders()[1:], ", ") + " (default: all)",
		"quick":  fmt.Sprintf("%d rounds and few kept sandboxes: to see that it works", quickRounds),
	}
}

func noSuchName(kind, name string, have []string) error {
	p := policy.Problem{
		What: fmt.Sprintf("cannot find %s %q", kind, name),
		Hint: "there are: " + strings.Join(have, ", "),
	}
	if near, ok := policy.Nearest(name, have); ok {
		p.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return p
}

func measuring(what string) string { return "isolate: measuring " + what + "\n" }
