package client

import "time"

// States of a run.
const (
	StateRunning = "running"
	StateEnded   = "ended"
)

// Run is a program that a server runs, or ran.
type Run struct {
	// ID names the run for as long as the server lives.
	ID string `json:"id"`
	// Way says how it came: "command" for isolate exec and shell, or "http".
	Way string `json:"way"`
	// PID is the process that asked; 0 if it is not known.
	PID   int      `json:"pid,omitempty"`
	Args  []string `json:"args"`
	State string   `json:"state"`
	// Sandbox is the kept sandbox it runs in; empty means one of its own.
	Sandbox string    `json:"sandbox,omitempty"`
	Began   time.Time `json:"began"`
	// Ended is absent while it runs.
	Ended *time.Time `json:"ended,omitempty"`
	// ExitCode is the exit code of the command; absent while it runs.
	ExitCode *int `json:"exit_code,omitempty"`
	// Reason says how the program ended; see docs/meta.md. For a command it is
	// empty: the command's --meta has it.
	Reason string `json:"reason,omitempty"`
	// Killed says that a request ended it.
	Killed bool `json:"killed,omitempty"`
}
