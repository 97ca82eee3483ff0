// Package toolfile reads tools.toml, which says what tools a program gets: the
// commands and MCP servers they come from, the limits, and who is asked.
//
// Decode is strict and pure: whatever it does not know is refused, with line and
// column. Open then starts what the file names. Secrets are never in the file's
// values: ${NAME} stands for a variable of the caller's environment, is put in
// at Open, and does not appear in errors or records. The format is docs/tools.md.
//
// Kernel: Decode none; Open as the packages of the sources.
package toolfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/mcp"
	"github.com/isolate-run/isolate/policy"
)

// File is a decoded tools.toml. The zero value has no tools.
type File struct {
	Tools   []Tool
	Servers []Server
	Limits  Limits
	Approve Approve
}

// Tool is a [tool.NAME]: a command of the host.
type Tool struct {
	Name        string
	Command     string
	Args        []string
	Dir         string // relative to the file's directory; empty means that
	Description string
	Schema      string // a file, relative to the file's directory
	Env         map[string]string
	Approve     bridge.Approval
	Effect      *bridge.Effect // nil means what the schema file says
	Timeout     time.Duration  // zero means the limit of the file
	MaxCalls    int            // zero means none of its own
}

// Server is an [mcp.NAME].
type Server struct {
	Name string
	// One of the three is set.
	Command, Socket, URL string

	Args        []string // of Command
	Dir         string   // of Command, as a tool's
	Env         map[string]string
	Headers     map[string]string // of URL
	Allow, Deny []string
	Approve     bridge.Approval
	Effects     mcp.Effects
	Timeout     time.Duration
	MaxCalls    int
}

// Limits are [limits]. Zero means the default of bridge.Options.
type Limits struct {
	MaxCalls, Parallel, MaxPending        int
	Timeout                               time.Duration
	RequestBytes, ResponseBytes           policy.Size
	TotalRequestBytes, TotalResponseBytes policy.Size
}

// Approve is [approve].
type Approve struct {
	Ask Ask
	// Command, Args and Dir are for AskCommand.
	Command string
	Args    []string
	Dir     string
	Env     map[string]string
	// URL and Secret are for AskWebhook.
	URL, Secret string
	// Wait is how long a decision may take. Zero means
	// bridge.DefaultApprovalWait.
	Wait time.Duration
}

// Ask says who is asked.
type Ask int

// Who is asked.
const (
	// AskUnset leaves it to the caller: a library asks nobody.
	AskUnset Ask = iota
	AskNobody
	AskTerminal
	AskCommand
	AskWebhook
)

var askNames = []string{"", "nobody", "terminal", "command", "webhook"}

// String is the name in the file.
func (a Ask) String() string {
	if a < 0 || int(a) >= len(askNames) {
		return fmt.Sprintf("Ask(%d)", int(a))
	}
	return askNames[a]
}

// UnmarshalText reads a name. The error is a policy.Problem.
func (a *Ask) UnmarshalText(text []byte) error {
	i, err := choose("who is asked", string(text), askNames[1:])
	*a = Ask(i + 1)
	return err
}

var approvalNames = []string{"never", "ask", "writes"}

// ParseApproval reads "never", "ask" or "writes". The error is a
// policy.Problem.
func ParseApproval(text string) (bridge.Approval, error) {
	i, err := choose("approval", text, approvalNames)
	return bridge.Approval(i), err
}

// choose is the place of text in names.
func choose(noun, text string, names []string) (int, error) {
	for i, n := range names {
		if n == text {
			return i, nil
		}
	}
	hint := "write " + strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	if near, ok := policy.Nearest(text, names); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return 0, policy.Problem{What: fmt.Sprintf("cannot read %s %s: there is no such choice", noun, quote(text)), Hint: hint}
}

// Options are the limits as the broker takes them, without who is asked.
func (f File) Options() bridge.Options {
	l := f.Limits
	return bridge.Options{
		MaxCalls: l.MaxCalls, Parallel: l.Parallel, MaxPending: l.MaxPending, Timeout: l.Timeout, ApprovalWait: f.Approve.Wait,
		RequestBytes: int64(l.RequestBytes), ResponseBytes: int64(l.ResponseBytes),
		TotalRequestBytes: int64(l.TotalRequestBytes), TotalResponseBytes: int64(l.TotalResponseBytes),
	}
}

// DecodeError is everything that is wrong with one file.
type DecodeError struct {
	// Name is the file's, as the caller gave it.
	Name string
	// Problems is never empty and in the order of the file.
	Problems []policy.Problem
}

func (e *DecodeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot use tools file %s:", quote(e.Name))
	for _, p := range e.Problems {
		if p.Line == 0 {
			fmt.Fprintf(&b, "\n  %s", p.Error())
			continue
		}
		fmt.Fprintf(&b, "\n  line %d, column %d: %s", p.Line, p.Column, p.Error())
	}
	return b.String()
}

// quote is %q of the beginning of a text.
func quote(text string) string {
	const limit = 80
	if len(text) <= limit {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:limit], ""))
}
