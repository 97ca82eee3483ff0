package bridge

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Class is what kind of failure a call met; each is an exception of its own in
// the generated modules, and an exit code of the tool command from 10 upwards.
type Class string

// The classes, in the order of the exit codes.
const (
	Denied           Class = "denied"            // 10: a person or the policy said no
	InvalidArguments Class = "invalid_arguments" // 11: the request cannot be served as it is
	Timeout          Class = "timeout"           // 12: the tool took too long
	Limit            Class = "limit"             // 13: a limit of calls, bytes or space
	Failed           Class = "failed"            // 14: the tool itself failed
	Closed           Class = "closed"            // 15: the bridge has ended
)

func (c Class) known() bool {
	return slices.Contains([]Class{Denied, InvalidArguments, Timeout, Limit, Failed, Closed}, c)
}

// Error is a failure as the program sees it. Its text has no host path, no
// stack trace and nothing of the environment.
type Error struct {
	// Class of a tool's own error may be empty: it is Failed.
	Class   Class
	Code    Code
	Message string
	// Details is a JSON value for the program. Nil means none.
	Details json.RawMessage
}

func (e *Error) Error() string { return string(cmp.Or(e.Class, Failed)) + ": " + e.Message }

// Code says in one word what happened.
type Code string

// The codes of the bridge. A tool may use codes of its own in class Failed.
const (
	CodeDenied         Code = "denied"            // denied
	CodeNobodyToAsk    Code = "nobody_to_ask"     // denied: approval is needed and nobody can give it
	CodeDenialLimit    Code = "denied_repeatedly" // denied without asking
	CodeApprovalWait   Code = "approval_timeout"  // denied: nobody answered in time
	CodeUnknownTool    Code = "unknown_tool"      // invalid_arguments
	CodeInvalid        Code = "invalid_arguments" // invalid_arguments: the schema says no
	CodeNotRegular     Code = "not_regular"       // invalid_arguments: link, FIFO, directory, device, hard link
	CodeBadJSON        Code = "bad_json"          // invalid_arguments
	CodeBadRequest     Code = "bad_request"       // invalid_arguments: not the fields of a request
	CodeDuplicateID    Code = "duplicate_id"      // invalid_arguments
	CodeChanging       Code = "still_changing"    // invalid_arguments: the file grew or shrank while it was read
	CodeTooLarge       Code = "request_too_large" // limit
	CodeCalls          Code = "tool_call_limit"   // limit: calls of this run
	CodeToolCalls      Code = "one_tool_limit"    // limit: calls of this tool
	CodeTotalBytes     Code = "total_bytes"       // limit: request or response bytes of this run
	CodePending        Code = "too_many_pending"  // limit
	CodeResultTooLarge Code = "result_too_large"  // failed: Details is the FileRef of where it is; null if it is lost
	CodeNoSpace        Code = "no_space"          // limit: bridge or workspace is full
	CodeTimeout        Code = "timeout"           // timeout
	CodeFailed         Code = "tool_failed"       // failed
	CodePanic          Code = "tool_crashed"      // failed
	CodeBadResult      Code = "bad_result"        // failed: not one JSON value, or not what the output schema says
	CodeLog            Code = "not_recorded"      // failed: the log could not be written, so nothing was done
	CodeClosed         Code = "closed"            // closed
)
