package isolate

import (
	"time"

	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// Reason says in one word how a run ended.
type Reason string

// The reasons of design section 8.
const (
	ReasonExit         Reason = "exit"          // the program ended by itself; see ExitCode
	ReasonSignal       Reason = "signal"        // a signal nobody of us sent ended it; see Signal
	ReasonWall         Reason = "wall"          // the wall-clock limit
	ReasonCPU          Reason = "cpu"           // the processor-time limit
	ReasonOOM          Reason = "oom"           // the memory limit
	ReasonPIDs         Reason = "pids"          // the process limit was met and the program failed
	ReasonDisk         Reason = "disk"          // the disk or inode limit was met and the program failed
	ReasonOutput       Reason = "output"        // a stream passed its limit and EndOnOutput is EndRun
	ReasonPolicy       Reason = "policy"        // the seccomp profile killed the program
	ReasonCancelled    Reason = "cancelled"     // the caller's context ended or Kill was called
	ReasonSandboxError Reason = "sandbox-error" // isolate did not do its job; nothing is known of the program
)

// Result is how a run ended. A misbehaving program is a Result; an error of
// Run means that the sandbox did not do its job.
type Result struct {
	Reason Reason `json:"reason"`
	// ExitCode is the program's own code, or 128+N after signal N. The
	// command line's code is derived from Reason and this by CommandExitCode.
	ExitCode int `json:"exit_code"`
	// Signal is the number of the signal that ended the program; 0 is none.
	Signal int `json:"signal,omitempty"`
	// NotStarted is set when the program could not be executed: "not-found"
	// or "not-executable". Reason is then "exit" and ExitCode 127 or 126.
	NotStarted string `json:"not_started,omitempty"`
	// Detail is one sentence for people: which limit, what it was.
	Detail string `json:"detail,omitempty"`

	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
	Usage  Usage  `json:"usage"`
	// Answer is what the program printed as its result; nil if nobody asked.
	Answer *Answer `json:"-"`

	// Blocked are the refused calls that the kernel told us of.
	Blocked denial.Summary `json:"blocked"`

	// Calls are the calls of the host's tools; nil if there were no tools.
	Calls *Calls `json:"calls,omitempty"`

	// Net is what happened on the network; nil without one. In a kept sandbox it
	// is what happened since the sandbox was made.
	Net *NetSummary `json:"net,omitempty"`

	// Plan is the digest of the plan in force ("sha256:…").
	Plan string `json:"plan"`
	// Weakenings are the consented weakenings that were really used.
	Weakenings []policy.Weakening `json:"weakenings"`
	// Identity says whose kernel user id the program had: "single-id", the
	// caller's, or "dropped", one that owns nothing, because the caller is root.
	Identity string `json:"identity"`
	// Limits says what enforces the limits: "cgroup2", "cgroup1", "hybrid" or "rlimits".
	Limits string `json:"limits"`

	// Audit is what to remember of the log of this run; nil if there is none,
	// or if it goes on, as that of a kept sandbox.
	Audit *AuditSeal `json:"audit,omitempty"`

	// In and Out list what was copied in and out; nil if nothing was asked.
	In  *workspace.Manifest `json:"in,omitempty"`
	Out *workspace.Manifest `json:"out,omitempty"`
}

// Stream is one of the two output streams.
type Stream struct {
	// Kept is the output when the caller gave no writer: all of it, or head
	// and tail around a marker line when Dropped is not 0.
	Kept []byte `json:"-"`
	// Total is how many bytes the program wrote, Dropped how many of them
	// were over the limit and thrown away.
	Total   int64 `json:"total"`
	Dropped int64 `json:"dropped"`
	// SHA256 is the digest of all that it wrote, in lower-case hex, of a run that
	// is recorded; empty otherwise, and with a terminal.
	SHA256 string `json:"sha256,omitempty"`
	// Unwritten is how many bytes the caller's writer did not take.
	Unwritten int64 `json:"unwritten,omitempty"`
}

// Usage is what the whole process tree used. In a kept sandbox it is what all
// programs there used while this one ran, but for Memory, which is the highest
// since the sandbox was made.
type Usage struct {
	// Wall is the time from start to end. Held is what of it the clock of the
	// wall-clock limit stood still, because a person was asked.
	Wall time.Duration `json:"wall_ns"`
	Held time.Duration `json:"held_ns,omitempty"`
	CPU  time.Duration `json:"cpu_ns"`
	// Memory is the highest memory use in bytes; 0 where nothing counts it.
	Memory int64 `json:"memory_peak_bytes"`
	// OOMKills is how many processes the memory limit killed, PIDsDenied how
	// many forks the process limit refused.
	OOMKills   int64 `json:"oom_kills"`
	PIDsDenied int64 `json:"pids_denied"`
}

// CommandExitCode is the exit code of the isolate command for this result,
// design section 8: the program's own; 124 after a time limit; 125 when
// nothing ran; 126 and 127 as the shell; 128+N after a signal.
func (r Result) CommandExitCode() int {
	switch r.Reason {
	case ReasonWall, ReasonCPU:
		return 124
	case ReasonSandboxError:
		return 125
	}
	return r.ExitCode
}
