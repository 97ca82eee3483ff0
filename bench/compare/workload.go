package compare

import (
	"context"
	"os"
	"slices"

	"github.com/isolate-run/isolate/bench/result"
)

// program is what contenders start.
type program struct {
	// key names it; each has its own.
	key  string
	args []string
	// output is how many bytes it prints.
	output int64
	// preload is what a preloaded interpreter has imported, as --preload has
	// it; empty if it is no Python.
	preload string
}

// workload is a program and what is measured of it.
type workload struct {
	program
	name, runs string
	// share is the part of the rounds that it has: one in share.
	share int
	// long says whether the program takes so long that how it is started does
	// not matter: contenders that differ in nothing else are left out.
	long bool
	// lacks says what is not there if the program fails when it is started bare.
	lacks string
}

// Names of what is no program started once and timed.
const (
	workersName = "workers"
	keptName    = "kept"
)

const (
	outputBytes  = 64 << 20
	python       = "/usr/bin/python3"
	cpuScript    = "x = 0\nfor i in range(6_000_000): x = (x * 31 + i) & 0xffffffff"
	syscallCount = "300000" // blocks of dd: a read and a write each
)

var trueProgram = program{key: "true", args: []string{"/bin/true"}}

func workloads() []workload {
	return []workload{
		{name: "true", runs: "/bin/true", share: 1, program: trueProgram},
		{name: "python", runs: "python3 -c pass", share: 2, lacks: "python3",
			program: program{key: "python", args: []string{python, "-c", "pass"}, preload: "python"}},
		{name: "numpy", runs: "python3 -c 'import numpy'", share: 5, lacks: "numpy",
			program: program{key: "numpy", args: []string{python, "-c", "import numpy"}, preload: "python:numpy"}},
		{name: "output", runs: "head -c 64M /dev/zero, read through a pipe", share: 10,
			program: program{key: "output", args: []string{"/usr/bin/head", "-c", "64M", "/dev/zero"}, output: outputBytes}},
		{name: "cpu", runs: "python3, six million steps of a loop", share: 10, long: true, lacks: "python3",
			program: program{key: "cpu", args: []string{python, "-c", cpuScript}}},
		{name: "syscalls", runs: "dd bs=1 count=" + syscallCount + ", 600,000 system calls", share: 10, long: true, lacks: "dd",
			program: program{key: "syscalls", args: []string{"/usr/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=" + syscallCount, "status=none"}}},
	}
}

// Workloads are the names for Options.Only, in the order of the report.
func Workloads() []string {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.name)
	}
	return append(names, workersName, keptName)
}

// missing says what this machine lacks for the workload; empty if nothing.
func (w workload) missing(ctx context.Context, c *comparison) string {
	bare := c.all[0]
	e := &entrant{who: bare, program: w.program}
	var err error
	if e.start, err = bare.prepare(w.program); err == nil {
		e.once(ctx)
	}
	switch {
	case err == nil && e.why == "":
		return ""
	case w.lacks != "":
		return w.lacks + " is not installed below /usr"
	}
	if _, err := os.Stat(w.program.args[0]); err != nil {
		return "there is no " + w.program.args[0]
	}
	return e.why
}

// promise is a bar of a contender at a workload.
type promise struct {
	workload, contender string
	bars                func(r result.LatencyRow) []result.Bar
}

// promises are the bars of the design (section 9) and of the project's plan.
var promises = []promise{
	{"true", isolateName, func(r result.LatencyRow) []result.Bar {
		return []result.Bar{
			result.AtMost("≤ 2 × fork+exec", 2, r.ToBare), result.AtMost("≤ 0.45 × bubblewrap", 0.45, r.ToPeer),
			result.AtMost("p99 ≤ 3 × p50", 3, float64(r.P99)/float64(r.P50)),
		}
	}},
	{"true", servedName, toPeer("≤ 0.9 × bubblewrap", 0.9)},
	{"true", coldName, toPeer("≤ 3 × bubblewrap", 3)},
	{"python", preloadedName, toPeer("≤ 0.35 × bubblewrap", 0.35)},
	{"numpy", preloadedName, toPeer("≤ 0.1 × bubblewrap", 0.1)},
	{"cpu", isolateName, toBare("≤ 1.02 × fork+exec", 1.02)},
	{"syscalls", isolateName, toBare("≤ 1.15 × fork+exec", 1.15)},
}

func toPeer(text string, limit float64) func(result.LatencyRow) []result.Bar {
	return func(r result.LatencyRow) []result.Bar { return []result.Bar{result.AtMost(text, limit, r.ToPeer)} }
}

func toBare(text string, limit float64) func(result.LatencyRow) []result.Bar {
	return func(r result.LatencyRow) []result.Bar { return []result.Bar{result.AtMost(text, limit, r.ToBare)} }
}

// latencyBars are the bars of a row. One that relates to a contender without
// figures is left out: nothing is met by not being measured.
func latencyBars(workload string, r result.LatencyRow) []result.Bar {
	for _, p := range promises {
		if p.workload == workload && p.contender == r.Contender {
			return slices.DeleteFunc(p.bars(r), func(b result.Bar) bool { return b.Got == 0 })
		}
	}
	return nil
}
