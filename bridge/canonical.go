package bridge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendCanonical appends v: keys sorted by their bytes, no space, numbers as
// they were written, only those characters escaped that must be.
func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case number:
		return append(b, v...)
	case string:
		return appendString(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, e)
		}
		return append(b, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			b = appendCanonical(b, v[k])
		}
		return append(b, '}')
	}
	return b // nothing else is ever parsed
}

const hexDigits = "0123456789abcdef"

// appendString appends s, which is valid UTF-8, as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// native is v with Go numbers, as the schema validator wants it: whole numbers
// as integers as far as they fit, all others as float64.
func native(v any) any {
	switch v := v.(type) {
	case number:
		if !strings.ContainsAny(string(v), ".eE") {
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				return n
			}
			if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
				return n
			}
		}
		f, _ := strconv.ParseFloat(string(v), 64) // parse has seen that it fits
		return f
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = native(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = native(e)
		}
		return m
	}
	return v
}

// exceeds tells whether a number of v, which is valid JSON, is one that programs
// read as infinity. Whole numbers without an exponent are not: they have any
// size.
func exceeds(v []byte) bool {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			i += stringLen(v[i:]) - 1
		case '0' <= c && c <= '9':
			n := len(v[i:]) - len(bytes.TrimLeft(v[i:], "0123456789.eE+-"))
			text := v[i : i+n]
			i += n - 1
			// below that length only an exponent of three digits gets so far
			if n < 5 || !bytes.ContainsAny(text, ".eE") {
				continue
			}
			if _, err := strconv.ParseFloat(string(text), 64); err != nil {
				return true
			}
		}
	}
	return false
}

// stringLen is the length of the JSON string at the beginning of v, with its
// quotes.
func stringLen(v []byte) int {
	end := 1
	for end < len(v) && v[end] != '"' {
		if v[end] == '\\' {
			end++
		}
		end++
	}
	return end + 1
}

// oneLine checks that v is one JSON value of valid UTF-8 and takes white space
// out of it. It is for what tools return: that may be large and deep.
func oneLine(v json.RawMessage) (json.RawMessage, bool) {
	if !utf8.Valid(v) || !json.Valid(v) {
		return nil, false
	}
	if !bytes.ContainsAny(v, "\n\r") {
		return v, true
	}
	var out bytes.Buffer
	out.Grow(len(v))
	if json.Compact(&out, v) != nil {
		return nil, false
	}
	return out.Bytes(), true
}
