package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Canonical JSON as in RFC 8785, and less: keys are ASCII, numbers are
// integers of at most 53 bits, nesting has a bound. One value has one text.
const (
	maxInteger = 1<<53 - 1
	maxDepth   = 16
)

// canonical encodes v, by way of its JSON encoding.
func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return appendCanonical(nil, tree, 0)
}

func appendCanonical(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("cannot encode record: more than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case json.Number:
		if err := checkInteger([]byte(v)); err != nil {
			return nil, err
		}
		return append(dst, v...), nil
	case string:
		return appendString(dst, v), nil
	case []any:
		return appendArray(dst, v, depth)
	case map[string]any:
		return appendObject(dst, v, depth)
	}
	return nil, fmt.Errorf("cannot encode record: it holds a %T", v)
}

func appendArray(dst []byte, list []any, depth int) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendCanonical(dst, e, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, m map[string]any, depth int) (_ []byte, err error) {
	keys := make([]string, 0, len(m))
	for k := range m {
		if !plainKey([]byte(k)) {
			return nil, fmt.Errorf("cannot encode record: key %q is not plain ASCII", k)
		}
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		if dst, err = appendCanonical(dst, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// plainKey tells whether a key is sorted alike by bytes and by UTF-16 units,
// and needs no escape.
func plainKey(k []byte) bool {
	for _, c := range k {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return len(k) > 0
}

const hexDigits = "0123456789abcdef"

// short are the control characters with an escape of one letter.
var short = map[byte]byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case short[c] != 0:
			dst = append(dst, '\\', short[c])
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '"')
}

func checkInteger(n []byte) error {
	digits := bytes.TrimPrefix(n, []byte("-"))
	if len(digits) == 0 || len(digits) > 16 || digits[0] == '0' && (len(digits) > 1 || len(n) > 1) {
		return fmt.Errorf("%.40q is not a canonical integer", n)
	}
	v := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return fmt.Errorf("%.40q is not a canonical integer", n)
		}
		v = v*10 + int64(c-'0')
	}
	if v > maxInteger {
		return fmt.Errorf("%s has more than 53 bits", n)
	}
	return nil
}

var (
	errNotCanonical = errors.New("it is not canonical JSON")
	errTooDeep      = fmt.Errorf("it has more than %d levels", maxDepth)
)

// scanner reads canonical JSON. It makes no value of what it reads.
type scanner struct {
	b  []byte
	at int
}

// scanObject calls field for each field of the one object that b is, with the
// raw text of its value.
func scanObject(b []byte, field func(key, value []byte) error) error {
	if !utf8.Valid(b) {
		return errNotCanonical
	}
	s := scanner{b: b}
	if err := s.object(0, field); err != nil {
		return err
	}
	if s.at != len(b) {
		return errNotCanonical
	}
	return nil
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) value(depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if s.at >= len(s.b) {
		return errNotCanonical
	}
	switch c := s.b[s.at]; {
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth)
	case c == '"':
		return s.text()
	case c == '-' || c >= '0' && c <= '9':
		return s.integer()
	}
	for _, word := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(s.b[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return errNotCanonical
}

// object reads an object. field may be nil.
func (s *scanner) object(depth int, field func(key, value []byte) error) error {
	if !s.take('{') {
		return errNotCanonical
	}
	if s.take('}') {
		return nil
	}
	var last []byte
	for {
		start := s.at
		if err := s.text(); err != nil {
			return err
		}
		key := s.b[start+1 : s.at-1]
		if !plainKey(key) || last != nil && bytes.Compare(last, key) >= 0 || !s.take(':') {
			return errNotCanonical
		}
		last, start = key, s.at
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if field != nil {
			if err := field(key, s.b[start:s.at]); err != nil {
				return err
			}
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return errNotCanonical
		}
	}
}

func (s *scanner) array(depth int) error {
	s.at++
	if s.take(']') {
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return errNotCanonical
		}
	}
}

func (s *scanner) integer() error {
	start := s.at
	for s.at < len(s.b) && (s.b[s.at] == '-' || s.b[s.at] >= '0' && s.b[s.at] <= '9') {
		s.at++
	}
	return checkInteger(s.b[start:s.at])
}

// text reads a string with the only escapes there may be.
func (s *scanner) text() error {
	if !s.take('"') {
		return errNotCanonical
	}
	for s.at < len(s.b) {
		c := s.b[s.at]
		s.at++
		switch {
		case c == '"':
			return nil
		case c < ' ':
			return errNotCanonical
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return errNotCanonical
}

func (s *scanner) escape() error {
	rest := s.b[s.at:]
	if len(rest) == 0 {
		return errNotCanonical
	}
	if bytes.IndexByte([]byte(`"\btnfr`), rest[0]) >= 0 {
		s.at++
		return nil
	}
	if len(rest) < 5 || string(rest[:3]) != "u00" || rest[3] != '0' && rest[3] != '1' {
		return errNotCanonical
	}
	low := bytes.IndexByte([]byte(hexDigits), rest[4])
	c := (rest[3]-'0')<<4 | byte(max(low, 0))
	if low < 0 || short[c] != 0 {
		return errNotCanonical
	}
	s.at += 5
	return nil
}
