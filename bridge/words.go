package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/isolate-run/isolate/internal/nearest"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// Every text that a program reads is made here, from the list below. It names
// what the program sent and what the limits are, never a path, a variable or a
// cause of the host. A tool's own *Error is the one exception; it is bounded.

// Bounds of texts, in bytes.
const (
	shownMax   = 128      // a name of the program's in a message
	messageMax = 4 << 10  // a message of a tool
	detailMax  = 6 << 10  // a cause in a Record: a message, and the 4 KiB of standard error that a command's tool keeps
	reasonMax  = 1 << 10  // a person's reason
	detailsMax = 64 << 10 // the details of a tool's error
)

// catalogue is what each code says. The verbs are filled by fault.
var catalogue = map[Code]struct {
	class Class
	text  string
}{
	CodeDenied:         {Denied, "the call was denied"},
	CodeNobodyToAsk:    {Denied, "the call needs approval and there is nobody to ask"},
	CodeDenialLimit:    {Denied, "the call was denied without asking: %d calls were denied in the last %d seconds"},
	CodeApprovalWait:   {Denied, "the call was denied: nobody decided within %s"},
	CodeUnknownTool:    {InvalidArguments, "unknown tool: %s"},
	CodeInvalid:        {InvalidArguments, "%s"},
	CodeNotRegular:     {InvalidArguments, "the request is not a readable regular file with one name"},
	CodeBadJSON:        {InvalidArguments, "the request is not good JSON: %s"},
	CodeBadRequest:     {InvalidArguments, "the request has not the fields of a request: %s"},
	CodeDuplicateID:    {InvalidArguments, "the id was used before in this run"},
	CodeChanging:       {InvalidArguments, "the request was still being written; write another file and rename it"},
	CodeTooLarge:       {Limit, "the request is larger than %d bytes"},
	CodeCalls:          {Limit, "tool-call budget exceeded: at most %d calls in one run"},
	CodeToolCalls:      {Limit, "tool-call budget exceeded: at most %d calls of this tool in one run"},
	CodeTotalBytes:     {Limit, "the run has used up its %d bytes of %s"},
	CodePending:        {Limit, "too many calls at once: at most %d may wait"},
	CodeResultTooLarge: {Failed, "%s"},
	CodeNoSpace:        {Limit, "no space left for the answer"},
	CodeTimeout:        {Timeout, "the tool did not answer within %s"},
	CodeFailed:         {Failed, "the tool failed"},
	CodePanic:          {Failed, "the tool crashed"},
	CodeBadResult:      {Failed, "the tool's result %s"},
	CodeLog:            {Failed, "the call could not be recorded, so it does not count as done"},
	CodeClosed:         {Closed, "the bridge has ended"},
}

// fault is the error of a code, with the verbs of its text filled.
func fault(code Code, fill ...any) *Error {
	w := catalogue[code]
	text := w.text
	if len(fill) > 0 {
		text = fmt.Sprintf(text, fill...)
	}
	return &Error{Class: w.class, Code: code, Message: text}
}

// unknownTool says that there is no such tool, and which was meant, if that can
// be guessed.
func (s *Set) unknownTool(name string) *Error {
	e := fault(CodeUnknownTool, shown(name))
	names := make([]string, 0, nearMax)
	for _, t := range s.tools[:min(len(s.tools), nearMax)] {
		names = append(names, t.Name)
	}
	if near, ok := nearest.Word(name, names); ok {
		e.Message += "; did you mean " + shown(near) + "?"
	}
	return e
}

// nearMax bounds the names that a wrong one is compared with: a program may ask
// often.
const nearMax = 200

// deniedBecause is the error of a call that somebody denied, with the reason
// that was given: the program's author may do better with it.
func deniedBecause(reason string) *Error {
	e := fault(CodeDenied)
	reason = plaintext.Clean(strings.TrimSpace(reason), reasonMax)
	if reason != "" {
		e.Message += ": " + reason
		e.Details = append(appendString([]byte(`{"reason":`), reason), '}')
	}
	return e
}

// shown is a program's name in a message: quoted, escaped and cut.
func shown(s string) string {
	if len(s) > shownMax {
		return strconv.QuoteToASCII(s[:shownMax]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// cut shortens a text to at most limit bytes of valid UTF-8.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for len(s) > 0 {
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	return s
}

// tamed is a tool's own error as the program may see it.
func tamed(e *Error) *Error {
	t := Error{Class: e.Class, Code: e.Code, Message: cut(e.Message, messageMax), Details: e.Details}
	if !utf8.ValidString(t.Message) || t.Message == "" {
		t.Message = catalogue[CodeFailed].text
	}
	if !t.Class.known() {
		t.Class = Failed
	}
	if !codeLike(t.Code) {
		t.Code = CodeFailed
	}
	if len(t.Details) > detailsMax {
		t.Details = nil
	}
	if t.Details != nil {
		if v, ok := oneLine(t.Details); ok {
			t.Details = v
		} else {
			t.Details = nil
		}
	}
	return &t
}

// codeLike says whether a tool's code is a word that can stand in an answer.
func codeLike(c Code) bool {
	if c == "" || len(c) > 64 {
		return false
	}
	for i := range len(c) {
		b := c[i]
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.') {
			return false
		}
	}
	return true
}

// resultInFile says where a result that was too big went.
func resultInFile(ref FileRef) *Error {
	e := fault(CodeResultTooLarge, fmt.Sprintf("the result is too large for an answer (%d bytes) and was written to %s", ref.Size, ref.Path))
	// A FileRef is strings and a number: it can be encoded.
	e.Details, _ = json.Marshal(ref)
	return e
}

// resultLost says that a result was too big and could not be put anywhere.
func resultLost(size int) *Error {
	return fault(CodeResultTooLarge, fmt.Sprintf("the result is too large (%d bytes) and could not be written to a file", size))
}
