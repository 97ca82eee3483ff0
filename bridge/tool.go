package bridge

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Tool is one thing the host does for a program.
type Tool struct {
	// Name is what a request says; see CheckName. Required.
	Name string
	// Description is for the program's author. Its text is not trusted.
	Description string
	// Input describes the arguments, an object. Nil means any object. Defaults
	// of optional properties are filled in before the tool sees them, unless
	// one of the schema's defaults does not fit its own property.
	Input *jsonschema.Schema
	// Output describes the result, and one that does not fit is a failure with
	// CodeBadResult. Nil means unknown.
	Output *jsonschema.Schema

	// Effect says whether the tool may change anything. Zero is MayWrite.
	Effect Effect
	// Approve says when a person is asked. Zero is ApproveNever.
	Approve Approval
	// Timeout bounds one call. Zero means Options.Timeout.
	Timeout time.Duration
	// MaxCalls bounds the calls of this tool in one run. Zero means that only
	// the limit of the run counts.
	MaxCalls int
	// Source says where the tool comes from, for people: "go",
	// "command ./script", "mcp files".
	Source string

	// Run does the work. Its context ends at the time limit and with the run.
	// An error that is an *Error reaches the program as it is; of any other
	// the program learns only that the tool failed, and the text goes into the
	// Record. Required.
	Run func(context.Context, Call) (Reply, error)

	// derived is the Output that NewTool made of a Go type. Values of the type
	// are not held against it: it knows neither nil maps nor encoders of the
	// type's own.
	derived *jsonschema.Schema
}

// Effect says what a tool does to the world.
type Effect int

// The effects.
const (
	MayWrite Effect = iota
	ReadOnly
)

// Approval says when a person is asked before a tool runs.
type Approval int

// The approvals.
const (
	// ApproveNever runs the tool without asking.
	ApproveNever Approval = iota
	// ApproveAsk asks before each call.
	ApproveAsk
	// ApproveWrites asks before each call unless the tool is ReadOnly.
	ApproveWrites
)

// Call is one admitted call, as a tool sees it.
type Call struct {
	// ID is the caller's, unique in the run; Seq the host's, from 1 upwards in
	// the order of admission.
	ID  string
	Seq int64
	// Args is a JSON object in canonical form: sorted keys, no duplicates, no
	// space, numbers as they were written. It has passed the tool's schema.
	Args json.RawMessage
	// Files takes what is too big or not text. Never nil.
	Files Files
}

// Reply is what a tool answers.
type Reply struct {
	// Value is one JSON value. Nil means null.
	Value json.RawMessage
}

// Files makes files in the program's workspace.
type Files interface {
	// Put writes a new file. The name is a suggestion of which only an
	// extension of harmless characters is used; mediaType is recorded. The
	// error is an *Error if the workspace is full.
	Put(ctx context.Context, name, mediaType string, content io.Reader) (FileRef, error)
}

// FileRef is how a result names a file in the workspace.
type FileRef struct {
	// Path is absolute, as the program sees it.
	Path      string `json:"path"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`
	// SHA256 is in lower-case hex.
	SHA256 string `json:"sha256"`
}
