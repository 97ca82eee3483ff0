package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/isolate-run/isolate/internal/strictjson"
)

// The SDK decodes structured results into float64, which changes whole numbers
// beyond 2^53: ids, amounts. So before it sees a message the structured result
// becomes a string that holds it as it was written, with a mark before it.

const mark = "isolate-json:"

// keepNumbers puts the structured result of a message, if it has one, into a
// string. Whatever it does not understand it leaves as it is.
func keepNumbers(message []byte) []byte {
	if _, twice := strictjson.Twice(message); twice {
		return ambiguous(message)
	}
	const key = "structuredContent"
	if !bytes.Contains(message, []byte(key)) {
		return message
	}
	var envelope, result map[string]json.RawMessage
	if json.Unmarshal(message, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil {
		return message
	}
	value, ok := result[key]
	if !ok || string(value) == "null" {
		return message
	}
	var err error
	if result[key], err = json.Marshal(mark + string(value)); err != nil {
		return message
	}
	if envelope["result"], err = json.Marshal(result); err != nil {
		return message
	}
	out, err := json.Marshal(envelope)
	if err != nil {
		return message
	}
	return out
}

// ambiguous takes the place of a message in which a name stands twice: for an
// answer an error, for anything else nothing that asks for something.
func ambiguous(message []byte) []byte {
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	if json.Unmarshal(message, &head) != nil {
		return message // as invalid as it was
	}
	if head.Method != nil || !isID(head.ID) {
		return []byte(`{"jsonrpc":"2.0","method":"notifications/ambiguous"}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"a name stands twice in one object of the answer"}}`, head.ID, codeAmbiguous)
}

// codeAmbiguous is the error of ambiguous.
const codeAmbiguous = -32098

// structured is the structured result as it was written, or as near as the SDK
// has left it.
func structured(v any) (json.RawMessage, error) {
	if s, ok := v.(string); ok {
		if raw, ok := strings.CutPrefix(s, mark); ok {
			return json.RawMessage(raw), nil
		}
	}
	return json.Marshal(v)
}
