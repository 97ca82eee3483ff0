package command

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// failure is an error that tells the program one thing and the host's record
// more.
type failure struct {
	told   *bridge.Error
	detail string
}

func (f *failure) Error() string { return f.detail }
func (f *failure) Unwrap() error { return f.told }

// failed is the common failure; details are a JSON value or nil.
func failed(message string, details json.RawMessage, detail string) error {
	return &failure{&bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: message, Details: details}, detail}
}

func tooLarge(limit int64, stderr []byte) error {
	message := fmt.Sprintf("the command printed more than %d bytes", limit)
	return &failure{&bridge.Error{Class: bridge.Failed, Code: bridge.CodeResultTooLarge, Message: message}, detail(message, stderr)}
}

// printedBytes of the beginning of what was no result are kept for the record.
const printedBytes = 400

func badResult(cause error, out, stderr []byte) error {
	message := "the command gave no result: " + cause.Error()
	told := message
	if len(out) > 0 {
		told += "; it printed " + strconv.QuoteToASCII(string(out[:min(len(out), printedBytes)]))
	}
	return &failure{&bridge.Error{Class: bridge.Failed, Code: bridge.CodeBadResult, Message: message}, detail(told, stderr)}
}

// classes are what exit codes from firstClass upwards say, as those of the
// tool command inside do. Closed, the last, is not for tools.
var classes = []struct {
	class bridge.Class
	code  bridge.Code
}{
	{bridge.Denied, bridge.CodeDenied},
	{bridge.InvalidArguments, bridge.CodeInvalid},
	{bridge.Timeout, bridge.CodeTimeout},
	{bridge.Limit, "limit"},
	{bridge.Failed, bridge.CodeFailed},
}

const firstClass = 10

// unsuccessful is the error of a command that did not exit with 0.
func unsuccessful(state *os.ProcessState, out, stderr []byte) error {
	code := state.ExitCode()
	if code < 0 {
		message := "the command was ended by " + state.String() // "signal: killed"
		return failed(message, nil, detail(message, stderr))
	}
	told := &bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed}
	if n := code - firstClass; n >= 0 && n < len(classes) {
		told.Class, told.Code = classes[n].class, classes[n].code
	}
	told.Message = fmt.Sprintf("the command ended with exit code %d", code)
	told.Details = json.RawMessage(fmt.Sprintf(`{"exit_code":%d}`, code))
	text := told.Message
	if said, ok := deliberate(out); ok {
		told.Message = said.Message
		if said.Code != "" {
			told.Code = bridge.Code(said.Code)
		}
		if said.Details != nil {
			told.Details = said.Details
		}
		text += ": " + said.Message
	}
	return &failure{told, detail(text, stderr)}
}

// said is what a command may say about its own failure.
type said struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details"`
}

// maxSaid bounds the text of a failure, in bytes.
const maxSaid = 4 << 10

// codeForm is what a command may use as a code of its own.
var codeForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`) })

// deliberate reads {"error": {…}}. Anything else on the standard output of a
// command that failed means nothing.
func deliberate(out []byte) (said, bool) {
	value, err := oneValue(out)
	if err != nil || len(value) > 16*maxSaid {
		return said{}, false
	}
	var body struct {
		Error *said `json:"error"`
	}
	if json.Unmarshal(value, &body) != nil || body.Error == nil || body.Error.Message == "" {
		return said{}, false
	}
	s := *body.Error
	if !codeForm().MatchString(s.Code) {
		s.Code = ""
	}
	s.Message = plaintext.Clean(s.Message, maxSaid)
	return s, true
}

// detail is a text for the record, with what stood on standard error.
func detail(text string, stderr []byte) string {
	if len(stderr) == 0 {
		return text
	}
	return text + "; on its standard error: " + strings.ToValidUTF8(string(stderr), "\uFFFD")
}
