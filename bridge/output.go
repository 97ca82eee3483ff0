package bridge

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// misfit says why a result, which is JSON, does not fit; empty if it does. A
// nil checker takes everything. The text names parts of the result and what
// the schema wants, as the program that calls the tool may see both.
func (c *checker) misfit(result json.RawMessage) string {
	if c == nil {
		return ""
	}
	v, err := relaxed(result)
	if err != nil {
		return "cannot be held against its output schema: " + err.Error()
	}
	if !c.costs.allows(c.schema, v, len(result)) {
		return "takes too many steps to be held against its output schema"
	}
	if c.valid(native(v)) {
		return ""
	}
	at, fault := c.explain(v)
	switch {
	case fault == "":
		return "does not fit its output schema"
	case at == "":
		return "does not fit its output schema: it " + fault
	}
	return "does not fit its output schema: " + shown(at) + " " + fault
}

// relaxed reads the JSON of a tool into the values of parse, without the bounds
// that are for programs: a result may have a million values.
func relaxed(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return asParsed(v), nil
}

// asParsed replaces the numbers of encoding/json in v.
func asParsed(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i, e := range v {
			v[i] = asParsed(e)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = asParsed(e)
		}
	}
	return v
}

// excerpt is the beginning of a result that was no good, for the record.
func excerpt(result json.RawMessage) string {
	const limit = 400 // bytes, before they are escaped
	if len(result) > limit {
		return strconv.QuoteToASCII(string(result[:limit])) + "..."
	}
	return strconv.QuoteToASCII(string(result))
}
