// Package result is what a comparison of ways to start programs came to, as a
// value: a document for machines (JSON), tables for people (Markdown), a plot
// (SVG).
//
// It measures nothing and starts nothing. Texts that come from other programs
// are made fit to be shown here, whoever puts them in. It needs no kernel.
package result

import (
	"encoding/json"
	"time"
)

// The contenders that the others are set in relation to.
const (
	Bare = "fork+exec"
	Peer = "bubblewrap"
)

// NotChosen is why contenders take no part that the caller did not want. They
// are in no table of Markdown, but for one line that names them.
const NotChosen = "not chosen"

// Report is one comparison on one machine.
type Report struct {
	Date    time.Time `json:"date"`
	Version string    `json:"version"`
	// Command is the command line that made it.
	Command    []string    `json:"command"`
	Machine    Machine     `json:"machine"`
	Contenders []Contender `json:"contenders"`
	Latencies  []Latency   `json:"latencies,omitempty"`
	Throughput *Throughput `json:"throughput,omitempty"`
	Growth     *Growth     `json:"growth,omitempty"`
	Weakenings []string    `json:"weakenings,omitempty"`
}

// Machine is where it was made.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Memory     int64  `json:"memory_bytes"`
	Kernel     string `json:"kernel"`
	UID        int    `json:"uid"`
}

// Contender is one way to start a program.
type Contender struct {
	Name string `json:"name"`
	// Is says what it does, Version which one it is; empty if nobody knows.
	Is      string `json:"is"`
	Version string `json:"version,omitempty"`
	// Missing says in a few words why it takes no part, Why says more; empty if
	// it does.
	Missing string `json:"missing,omitempty"`
	Why     string `json:"why,omitempty"`
	// Seen are the layers that a program in it saw, Also those that cannot be
	// seen from inside, as the contender's description has them.
	Seen []Layer  `json:"layers_seen"`
	Also []string `json:"layers_claimed"`
	// Unseen says why nothing was seen; empty if something was.
	Unseen string `json:"unseen,omitempty"`
}

// Layer is something between the program and the host.
type Layer string

// The layers that a program can see.
const (
	UserNS      Layer = "user ns"
	MountNS     Layer = "mount ns"
	PIDNS       Layer = "pid ns"
	NetNS       Layer = "net ns"
	IPCNS       Layer = "ipc ns"
	UTSNS       Layer = "uts ns"
	CgroupNS    Layer = "cgroup ns"
	Seccomp     Layer = "seccomp"
	NoNewPrivs  Layer = "no new privileges"
	NoCaps      Layer = "no capabilities"
	ReadOnlyUsr Layer = "/usr read-only"
	HiddenFiles Layer = "host's files hidden"
	CleanEnv    Layer = "environment hidden"
)

// Layers are all of them, in the order of the table.
var Layers = []Layer{UserNS, MountNS, PIDNS, NetNS, IPCNS, UTSNS, CgroupNS, Seccomp, NoNewPrivs, NoCaps, ReadOnlyUsr, HiddenFiles, CleanEnv}

// Latency is how long each contender took from the start of a program to its
// end.
type Latency struct {
	Workload string `json:"workload"`
	// Runs is the program as a person would write it.
	Runs string `json:"runs"`
	// Missing says why it was not measured; empty if it was.
	Missing string       `json:"missing,omitempty"`
	Rounds  int          `json:"rounds"`
	Rows    []LatencyRow `json:"rows,omitempty"`
}

// LatencyRow is one contender's.
type LatencyRow struct {
	Contender string `json:"contender"`
	// Why says why there are no figures; empty if there are.
	Why string `json:"why,omitempty"`
	// Samples are the durations in nanoseconds, one a round, in order of rounds.
	Samples []time.Duration `json:"samples_ns,omitempty"`
	P50     time.Duration   `json:"p50_ns,omitempty"`
	P99     time.Duration   `json:"p99_ns,omitempty"`
	// ToBare and ToPeer are the medians, over the rounds, of the quotient of
	// this duration and that of Bare or Peer in the same round; 0 is unknown.
	ToBare float64 `json:"to_fork_exec,omitempty"`
	ToPeer float64 `json:"to_bubblewrap,omitempty"`
	Bars   []Bar   `json:"bars,omitempty"`
}

// Throughput is how many programs a second each contender ran.
type Throughput struct {
	Runs string `json:"runs"`
	// Block is how long one turn of one contender was, Blocks how many it had
	// with each number of workers.
	Block   time.Duration `json:"block_ns"`
	Blocks  int           `json:"blocks"`
	Workers []int         `json:"workers"`
	Rows    []RateRow     `json:"rows"`
}

// RateRow is one contender's, with each number of workers.
type RateRow struct {
	Contender string `json:"contender"`
	// Why says why there are no figures; empty if there are.
	Why string `json:"why,omitempty"`
	// Samples are the rates of the blocks and PerSecond their median, each in
	// the order of Throughput.Workers.
	Samples   [][]float64 `json:"samples,omitempty"`
	PerSecond []float64   `json:"per_second,omitempty"`
	Bars      []Bar       `json:"bars,omitempty"`
}

// Growth is what kept sandboxes cost the next one, and the machine.
type Growth struct {
	// Why says why there are no figures; empty if there are.
	Why    string  `json:"why,omitempty"`
	Rounds int     `json:"rounds"`
	Levels []Level `json:"levels,omitempty"`
	Bars   []Bar   `json:"bars,omitempty"`
}

// Level is what was seen with a number of sandboxes kept.
type Level struct {
	Kept    int             `json:"kept"`
	Samples []time.Duration `json:"samples_ns"`
	P50     time.Duration   `json:"p50_ns"`
	P99     time.Duration   `json:"p99_ns"`
	// ToFirst is the quotient of P50 and that of the first level.
	ToFirst float64 `json:"to_first"`
	// MemoryEach is by how much the machine's memory in use grew for each, in
	// bytes: kernel memory included, and whatever else ran. 0 is unknown.
	MemoryEach int64 `json:"memory_each_bytes,omitempty"`
	// Descriptors are those of the process that has the sandboxes.
	Descriptors int `json:"descriptors"`
}

// Bar is something that the project promises.
type Bar struct {
	// Text is the promise, as "≤ 2 × fork+exec".
	Text string  `json:"text"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

// AtMost is a bar that a value must not pass.
func AtMost(text string, limit, got float64) Bar { return Bar{text, got, got <= limit} }

// AtLeast is a bar that a value must reach.
func AtLeast(text string, limit, got float64) Bar { return Bar{text, got, got >= limit} }

// JSON is the report as an indented document.
func (r Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}
