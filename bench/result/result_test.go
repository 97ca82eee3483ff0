package result

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the expected texts anew")

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i // 100 … 1
	}
	for _, c := range []struct {
		samples []int
		p       float64
		want    int
	}{
		{nil, 50, 0},
		{[]int{7}, 50, 7}, {[]int{7}, 99, 7},
		{[]int{3, 1, 2}, 50, 2}, {[]int{4, 1, 3, 2}, 50, 2},
		{[]int{3, 1, 2}, 99, 3},
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1},
	} {
		if got := Percentile(c.samples, c.p); got != c.want {
			t.Errorf("Percentile(%v, %v) = %d, want %d", c.samples, c.p, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the samples were sorted in place")
	}
}

// A machine that is twice as slow in some rounds does not change a ratio.
func TestPairedIgnoresDrift(t *testing.T) {
	var slow, fast []time.Duration
	for i := range 9 {
		drift := time.Duration(1 + i%2)
		slow, fast = append(slow, 30*drift), append(fast, 10*drift)
	}
	if got := Paired(slow, fast); got != 3 {
		t.Errorf("Paired = %v, want 3", got)
	}
	if got := Paired(slow, nil); got != 0 {
		t.Errorf("Paired with nothing = %v, want 0", got)
	}
	if got := Paired([]time.Duration{5}, []time.Duration{0}); got != 0 {
		t.Errorf("Paired with a duration of zero = %v, want 0", got)
	}
}

func TestBars(t *testing.T) {
	for _, c := range []struct {
		bar  Bar
		want bool
	}{{AtMost("", 2, 2), true}, {AtMost("", 2, 2.01), false}, {AtLeast("", 2, 2), true}, {AtLeast("", 2, 1.99), false}, {AtMost("", 2, math.NaN()), false}} {
		if c.bar.Met != c.want {
			t.Errorf("%+v, want %v", c.bar, c.want)
		}
	}
}

// sample has one of everything, and texts of a peer that means ill.
func sample() Report {
	const hostile = "<script>&\"' | `x`\n| a | b |\n\x1b[31mred\x00\u202e"
	ms := time.Millisecond
	r := Report{
		Date: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Version: "v1", Command: []string{"isolate", "bench", hostile},
		Machine: Machine{Processor: "A CPU", Processors: 2, Memory: 24 << 30, Kernel: "6.18", UID: 1500},
		Contenders: []Contender{
			{Name: Bare, Is: "the program alone"},
			{Name: "isolate", Is: "the library", Seen: []Layer{UserNS, Seccomp}, Also: []string{"limits"}},
			{Name: Peer, Is: "another", Version: hostile, Unseen: hostile},
			{Name: "crun", Is: "an OCI run-time", Missing: "does not work here", Why: hostile},
			{Name: "podman", Is: "containers", Missing: "not installed"},
			{Name: "runc", Is: "another run-time", Missing: NotChosen},
		},
		Latencies: []Latency{
			{Workload: "true", Runs: "/bin/true", Rounds: 2, Rows: []LatencyRow{
				{Contender: Bare, Samples: []time.Duration{1 * ms, 2 * ms}},
				{Contender: "isolate", Samples: []time.Duration{2 * ms, 4 * ms}, Bars: []Bar{AtMost("≤ 2 × fork+exec", 2, 2), AtMost("≤ 0.1 × bubblewrap", 0.1, 0.2)}},
				{Contender: Peer, Samples: []time.Duration{10 * ms, 20 * ms}},
				{Contender: "crun", Why: hostile},
				{Contender: "runc", Why: NotChosen},
			}},
			{Workload: "numpy", Runs: "import numpy", Missing: "numpy is not installed below /usr"},
		},
		Throughput: &Throughput{Runs: "/bin/true", Block: 400 * ms, Blocks: 1, Workers: []int{1, 16}, Rows: []RateRow{
			{Contender: "isolate", Samples: [][]float64{{100}, {1234.5}}, Bars: []Bar{AtLeast("≥ 1.3 × one worker's", 1.3, 12.3)}},
			{Contender: "podman", Why: "not installed"},
		}},
		Growth: &Growth{Rounds: 1, Levels: []Level{
			{Kept: 0, Samples: []time.Duration{4 * ms}, Descriptors: 20},
			{Kept: 10, Samples: []time.Duration{6 * ms}, MemoryEach: 300 << 10, Descriptors: 110},
		}},
		Weakenings: []string{"weak-limits"},
	}
	r.Latencies[0].Settle()
	r.Throughput.Settle()
	r.Growth.Settle()
	return r
}

func TestMarkdown(t *testing.T) {
	got := sample().Markdown()
	const file = "testdata/report.md"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the report is\n%s\nnot as in %s; look at it and run with -update", got, file)
	}
	columns := 0
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns != 0 && n != columns {
			t.Errorf("a row of another number of columns: %q", line)
		}
		columns = n
	}
	for _, bad := range []string{"\x1b", "\x00", "\u202e", "<script"} {
		if strings.Contains(got, bad) {
			t.Errorf("the report has %q in it", bad)
		}
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	hostile := sample()
	hostile.Latencies[0].Runs = "]]><script>alert(1)</script>\x00\xff"
	hostile.Latencies[0].Rows[1].Contender = `"/><script/>`
	hostile.Latencies[0].Rows[2].P99 = math.MaxInt64
	hostile.Throughput.Rows[0].PerSecond[0] = math.NaN()
	for name, r := range map[string]Report{"a sample": sample(), "nothing": {}, "hostile texts": hostile} {
		elements := map[string]int{}
		d := xml.NewDecoder(strings.NewReader(r.SVG()))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, r.SVG())
			}
			if e, ok := token.(xml.StartElement); ok {
				elements[e.Name.Local]++
			}
		}
		if elements["svg"] != 1 || elements["script"] > 0 {
			t.Errorf("%s: elements %v", name, elements)
		}
		if name == "a sample" && elements["circle"] != 7 { // 3 latencies, 2 rates, 2 levels
			t.Errorf("%s: %d dots, want 7", name, elements["circle"])
		}
		if strings.Contains(r.SVG(), "NaN") || strings.Contains(r.SVG(), "Inf") {
			t.Errorf("%s: a place that is none:\n%s", name, r.SVG())
		}
	}
}

func TestJSONHasTheSamples(t *testing.T) {
	b, err := sample().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Latencies[0].Rows[1].Samples; len(got) != 2 || got[1] != 4*time.Millisecond {
		t.Errorf("samples %v", got)
	}
	if got := r.Latencies[0].Rows[1].ToPeer; got != 0.2 {
		t.Errorf("× bubblewrap %v, want 0.2", got)
	}
}
