package client

import (
	"encoding/json"
	"time"
)

// States of a run.
const (
	StateRunning = "running"
	StateEnded   = "ended"
)

// Run is a program that a server runs, or ran.
type Run struct {
	// ID names the run for as long as the server lives.
	ID string `json:"id"`
	// Way says how it came: "command" for isolate exec, run and shell, or "http".
	Way string `json:"way"`
	// PID is the process that asked; absent if it is not known.
	PID   int      `json:"pid,omitempty"`
	Args  []string `json:"args"`
	State string   `json:"state"`
	// Sandbox is the kept sandbox it runs in; absent means one of its own.
	Sandbox string    `json:"sandbox,omitempty"`
	Began   time.Time `json:"began"`
	// Ended is absent while it runs.
	Ended *time.Time `json:"ended,omitempty"`
	// ExitCode is the exit code of the command; absent while it runs.
	ExitCode *int `json:"exit_code,omitempty"`
	// Killed says that a request ended it.
	Killed bool `json:"killed,omitempty"`
	// CPU is the processor time in nanoseconds and Memory the highest use of
	// memory in bytes, of its sandbox so far; absent if nothing counts them.
	CPU    time.Duration `json:"cpu_ns,omitempty"`
	Memory int64         `json:"memory_peak_bytes,omitempty"`
	// Result is how it ended, as docs/meta.md describes it. For a command it
	// is absent: the command's --meta has it.
	Result json.RawMessage `json:"result,omitempty"`
}

// RunRequest asks for a run.
type RunRequest struct {
	// Policy is the text of a policy file (TOML). Empty means the defaults.
	// For a run in a kept sandbox it must be empty.
	Policy string `json:"policy,omitempty"`
	// Args is the program and its arguments. Required.
	Args []string `json:"args"`
	// Env is added to the policy's environment.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working directory inside. Empty means /workspace.
	Dir string `json:"dir,omitempty"`
	// Time is the longest it may take, as "10s", if that is less than the
	// policy's. Empty means the policy's.
	Time string `json:"time,omitempty"`
	// Input is the whole standard input. With OpenInput it is the beginning
	// of it, and the rest is sent to /v1/runs/{id}/stdin.
	Input     []byte `json:"input,omitempty"`
	OpenInput bool   `json:"open_input,omitempty"`
	// In is copied into the workspace before, Out is a host directory that
	// receives the workspace after. Both are absolute paths of the host, and
	// not for kept sandboxes.
	In  []Input `json:"in,omitempty"`
	Out string  `json:"out,omitempty"`
	// Detach lets the run go on without the request.
	Detach bool `json:"detach,omitempty"`
}

// Input is a host file or directory and where it goes below the workspace.
type Input struct {
	Source string `json:"source"`
	// Target is the name below /workspace; empty means as in isolate exec --in.
	Target string `json:"target,omitempty"`
}

// CopyIn asks for files of the host in a kept sandbox.
type CopyIn struct {
	In []Input `json:"in"`
}

// CopyOut asks for a directory of a kept sandbox on the host.
type CopyOut struct {
	// Path is the directory below /workspace; empty means /workspace itself.
	Path string `json:"path,omitempty"`
	// Out is the directory of the host, absolute, that receives what is in it: it
	// is made, or is empty.
	Out string `json:"out"`
}

// Types of Event.
const (
	EventStarted = "started" // the request was accepted; ID is set
	EventStdout  = "stdout"  // Data is set
	EventStderr  = "stderr"  // Data is set
	EventDropped = "dropped" // the log has lost Bytes bytes before this
	EventResult  = "result"  // the last one: Result and CommandExitCode are set
	EventError   = "error"   // the last one: Problems are set, nothing is known of the program
)

// Event is one line of the answer to a run.
type Event struct {
	Type            string          `json:"type"`
	ID              string          `json:"id,omitempty"`
	Data            []byte          `json:"data,omitempty"`
	Bytes           int64           `json:"bytes,omitempty"`
	CommandExitCode int             `json:"command_exit_code,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"`
	Problems        []Problem       `json:"problems,omitempty"`
}

// Problem is something that stands in the way, in the words of the command.
type Problem struct {
	What   string `json:"what"`
	Rule   string `json:"rule"`
	Remedy string `json:"remedy"`
}

// SandboxRequest asks for a kept sandbox.
type SandboxRequest struct {
	// Policy is the text of a policy file (TOML). Empty means the defaults.
	Policy string `json:"policy,omitempty"`
	// Idle is how long it lives without a request, as "10m". Empty means 10m.
	Idle string `json:"idle,omitempty"`
	// Lifetime is how long it lives in all. Empty means 1h; 24h at most.
	Lifetime string `json:"lifetime,omitempty"`
}

// Sandbox is a kept sandbox.
type Sandbox struct {
	ID string `json:"id"`
	// Plan is the digest of the plan in force.
	Plan  string    `json:"plan"`
	Began time.Time `json:"began"`
	// Expires is when it goes if nothing happens.
	Expires time.Time `json:"expires"`
	// Running is how many requests are at work in it.
	Running int `json:"running"`
}

// NetGrant asks to open the network of a kept sandbox for a time. All of it is
// required.
type NetGrant struct {
	// Allow are rules in their short form: [PROTOCOL://]HOST[:PORT].
	Allow []string `json:"allow"`
	// For is how long, as "10m"; 24h at most.
	For string `json:"for"`
	// Reason is why, for the audit log; one line.
	Reason string `json:"reason"`
}

// NetGranted is a grant in force.
type NetGranted struct {
	// Rules are the names that its rules have in denials and in the log.
	Rules []string  `json:"rules"`
	Until time.Time `json:"until"`
}

// File is an entry of a directory in a workspace.
type File struct {
	Name string `json:"name"`
	// Kind is "regular file", "directory", "symbolic link" and so on.
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	// Mode are the permission bits in octal.
	Mode string `json:"mode"`
}

// FileList is a directory; More says that not everything is listed.
type FileList struct {
	Files []File `json:"files"`
	More  bool   `json:"more,omitempty"`
}

// Written is a file that was put.
type Written struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	SHA256 string `json:"sha256"`
}

// Version is what serves.
type Version struct {
	Version string `json:"version"`
	API     int    `json:"api"`
}

// Stats is what a server has and has done.
type Stats struct {
	Pool PoolStats `json:"pool"`
	// Running is how many runs there are, Kept how many kept sandboxes,
	// Connections how many connections are open.
	Running     int `json:"running"`
	Kept        int `json:"kept"`
	Connections int `json:"connections"`
	// Draining says that the server takes nothing new.
	Draining bool      `json:"draining"`
	Began    time.Time `json:"began"`
}

// PoolStats is what the Runtime has and has done. Its fields are those of
// isolate.Stats.
type PoolStats struct {
	MaxSandboxes   int               `json:"max_sandboxes"`
	MaxWaiting     int               `json:"max_waiting"`
	MaxCells       int               `json:"max_cells"`
	Cells          int               `json:"cells"`
	Sandboxes      int               `json:"sandboxes"`
	Waiting        int               `json:"waiting"`
	Spares         int               `json:"spares"`
	Preparing      int               `json:"preparing"`
	IdleSeats      int               `json:"idle_seats"`
	Runs           map[string]uint64 `json:"runs"`
	Ahead          uint64            `json:"ahead"`
	Made           uint64            `json:"made"`
	Refused        uint64            `json:"refused"`
	Waited         time.Duration     `json:"waited_ns"`
	Blocked        uint64            `json:"blocked"`
	TearDownErrors uint64            `json:"tear_down_errors"`
}
