package isolate

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// The vocabulary of package policy, so that most callers import one package.
type (
	// Policy is what a program may do; see package policy.
	Policy = policy.Policy
	// Bind is a host path shown read-only inside.
	Bind = policy.Bind
	// Size is a number of bytes.
	Size = policy.Size
	// Input is a host file or directory copied into the workspace.
	Input = workspace.Input
	// Manifest lists what a copy moved and what it left out, and why.
	Manifest = workspace.Manifest
)

// Cmd is one program to run.
type Cmd struct {
	// Args is the program and its arguments; Args[0] is looked up in the
	// sandbox's PATH when it has no slash. Required.
	Args []string
	// Env is added to the policy's environment for this program.
	Env map[string]string
	// Dir is the working directory inside. Empty means /workspace.
	Dir string
	// Wall is the longest this program may take, for one that is to end before
	// the policy's limit; more than that is refused. Zero means the policy's.
	Wall time.Duration

	// Stdin is copied to the program; nil means /dev/null.
	Stdin io.Reader
	// Stdout and Stderr receive the output as it comes, within the policy's
	// Output limit; nil keeps it in the Result. A writer that fails ends the
	// copying, not the run: the rest is drained and counted as dropped.
	Stdout, Stderr io.Writer
	// Terminal gives the program a private pseudo-terminal in place of the
	// three streams above. Nil means no terminal.
	Terminal *Terminal

	// File is what the program is known by where Args[0] is only its
	// interpreter; the audit log has it. Empty means nothing.
	File string

	// Started is called once, when the program has started, from the goroutine
	// that then waits for its end. Nil means nobody.
	Started func(Running)

	// Answer says whether to look for an Answer in standard output.
	Answer AnswerWish

	// Tools are what the program may ask the host to do (Run only; for a kept
	// Sandbox see SandboxWithTools). Nil means nothing.
	Tools *Tools
	// ToolHost serves tools in place of Tools (Run only). Nil means that nobody
	// does.
	ToolHost ToolHost

	// Audit is the log that records this run, for a Runtime that has none (Run
	// only). Nil means Options.Audit.
	Audit *audit.Log

	// In is copied into the workspace before the program starts (Run only;
	// a kept Sandbox has CopyIn).
	In []Input
	// Out is a host directory that receives the workspace after the program
	// has ended, also where a limit or the context ended it; in the latter case
	// the copy may take 10 s. Empty means nothing is copied out.
	Out string
}

// ErrAbandoned, as the cause of the end of a run's context, says that nobody is
// left who wants what came of it: nothing is copied out.
var ErrAbandoned = errors.New("nobody waits for the run any more")

// ErrClosed means that a Runtime or a Sandbox was closed before.
var ErrClosed = container.ErrClosed

var (
	errRuntimeClosed = fmt.Errorf("the runtime is %w", ErrClosed)
	errSandboxClosed = fmt.Errorf("the sandbox is %w", ErrClosed)
)

// AnswerWish says whether an Answer is looked for. The zero value is no.
type AnswerWish int

// The wishes.
const (
	IgnoreAnswer AnswerWish = iota
	FindAnswer
)

// Terminal is the host side of a private pseudo-terminal.
type Terminal struct {
	// Input is what the user types; nil means nothing is ever typed.
	Input io.Reader
	// Output receives what the program writes. Required.
	Output io.Writer
	// Size is the first size; zero means 24 rows of 80 columns.
	Size WindowSize
	// Resize announces later sizes; nil means none will come.
	Resize <-chan WindowSize
}

// WindowSize is the size of a terminal in characters.
type WindowSize struct{ Rows, Cols uint16 }

// Options are the settings of a Runtime. The zero value is ready to use.
type Options struct {
	// Dir is the directory for run-time state, mode 0700 and owned by the
	// caller. Empty means DefaultDir: $XDG_RUNTIME_DIR/isolate, or a directory
	// below /dev/shm or /tmp that is only ours.
	Dir string
	// MaxSandboxes bounds the sandboxes that exist at once; a Run over it
	// waits. Zero means 64.
	MaxSandboxes int
	// MaxWaiting bounds the callers that wait for a sandbox, first come, first
	// served; one more gets an *OverCapacityError. Zero means 1024.
	MaxWaiting int
	// MaxCells bounds the cells kept for different root file systems.
	// Zero means 8.
	MaxCells int
	// CellIdle is how long a cell that nobody uses is kept, with what was made
	// ahead in it. Zero means 5 minutes.
	CellIdle time.Duration
	// Spares is how many sandboxes a cell keeps made ahead, so that a run finds
	// one ready. Zero means one a processor; NoSpares means none.
	Spares int
	// Expect says whether Open is to begin to make a cell while there is no
	// plan yet, for a program that runs one command. A cell that is not needed
	// after all ends with the Runtime. Zero means NoCell.
	Expect Expectation
	// Audit is the log that records every run and kept sandbox; audit.Open
	// gives one, which is closed after the Runtime. What cannot be recorded is
	// not done. Nil means that nothing is recorded.
	Audit *audit.Log
	// Telemetry is told of every run and kept sandbox while it goes on; package
	// telemetry has one for OpenTelemetry. Nil means nobody.
	Telemetry Telemetry
	// NetHelper is the program that holds the network of a sandbox. Empty means
	// isolate-netd beside this executable or in ../libexec/isolate. Programs
	// that call netd.Init first in main may name themselves.
	NetHelper string
	// OwnPorts are TCP ports at which the caller listens for itself: no policy
	// may grant them to a program. Nil means none.
	OwnPorts []int
	// StopWait bounds how long Close waits for runs in progress to return.
	// Zero means 5 s.
	StopWait time.Duration
}

// Expectation says what will be needed soon.
type Expectation int

// The expectations.
const (
	NoCell Expectation = iota
	OneCell
)

// NoSpares is the value of Options.Spares for a program that runs one command.
const NoSpares = -1
