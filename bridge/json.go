package bridge

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of JSON from a program (rule 9). encoding/json is not used to read
// it: it matches keys without their case, takes the last of two equal keys and
// repairs broken text.
const (
	maxDepth  = 32     // objects and arrays within each other
	maxTokens = 10_000 // values and keys
	maxKey    = 256    // bytes of a key, decoded
	maxNumber = 400    // bytes of a number; more than any float64 needs
)

// A parsed value is nil, bool, string, number, []any or map[string]any.

// number is a JSON number as it was written.
type number string

// parser reads one JSON value strictly, from text that is valid UTF-8.
type parser struct {
	in     []byte
	at     int
	tokens int
}

// parse reads raw as exactly one JSON value. The error is fit for a program.
func parse(raw []byte) (any, error) {
	switch {
	case len(raw) == 0:
		return nil, fmt.Errorf("it is empty")
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return nil, fmt.Errorf("it begins with a byte order mark")
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("it is not UTF-8")
	}
	p := parser{in: raw}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.at < len(p.in) {
		return nil, p.wrong("something follows the value")
	}
	return v, nil
}

func (p *parser) wrong(what string) error { return fmt.Errorf("%s at byte %d", what, p.at) }

func (p *parser) space() {
	for p.at < len(p.in) {
		switch p.in[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) token() error {
	p.tokens++
	if p.tokens > maxTokens {
		return fmt.Errorf("it has more than %d values and keys", maxTokens)
	}
	return nil
}

func (p *parser) value(depth int) (any, error) {
	if err := p.token(); err != nil {
		return nil, err
	}
	if p.at >= len(p.in) {
		return nil, p.wrong("it ends early")
	}
	switch c := p.in[p.at]; {
	case c == '{' || c == '[':
		if depth == maxDepth {
			return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
		p.at++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		p.at++
		return p.text()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, v := range literals {
		if bytes.HasPrefix(p.in[p.at:], []byte(word)) {
			p.at += len(word)
			return v, nil
		}
	}
	return nil, p.wrong("no value")
}

var literals = map[string]any{"null": nil, "true": true, "false": false}

func (p *parser) object(depth int) (any, error) {
	m := map[string]any{}
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil || !more {
			return m, err
		}
		key, err := p.key()
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("the key %s stands twice in one object", shown(key))
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
}

func (p *parser) key() (string, error) {
	if err := p.token(); err != nil {
		return "", err
	}
	if p.at >= len(p.in) || p.in[p.at] != '"' {
		return "", p.wrong("no key")
	}
	p.at++
	key, err := p.text()
	if err != nil {
		return "", err
	}
	if len(key) > maxKey {
		return "", fmt.Errorf("a key is longer than %d bytes", maxKey)
	}
	p.space()
	if p.at >= len(p.in) || p.in[p.at] != ':' {
		return "", p.wrong("no colon")
	}
	p.at++
	p.space()
	return key, nil
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	for first := true; ; first = false {
		more, err := p.next(']', first)
		if err != nil || !more {
			return list, err
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

// next goes to the next member of an object or array, or past its end.
func (p *parser) next(end byte, first bool) (more bool, err error) {
	p.space()
	if p.at >= len(p.in) {
		return false, p.wrong("it ends early")
	}
	switch {
	case p.in[p.at] == end:
		p.at++
		return false, nil
	case first:
		return true, nil
	case p.in[p.at] != ',':
		return false, p.wrong("no comma")
	}
	p.at++
	p.space()
	return true, nil
}

// text reads a string whose opening quote was read.
func (p *parser) text() (string, error) {
	begin := p.at
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == '"':
			p.at++
			return string(p.in[begin : p.at-1]), nil
		case c == '\\':
			return p.escaped(begin)
		case c < ' ':
			return "", p.wrong("a control character in a string")
		}
		p.at++
	}
	return "", p.wrong("it ends early")
}

// escaped reads the rest of a string in which a backslash was met.
func (p *parser) escaped(begin int) (string, error) {
	out := append(make([]byte, 0, 2*(p.at-begin)+64), p.in[begin:p.at]...)
	for p.at < len(p.in) {
		c := p.in[p.at]
		switch {
		case c == '"':
			p.at++
			return string(out), nil
		case c < ' ':
			return "", p.wrong("a control character in a string")
		case c != '\\':
			out = append(out, c)
			p.at++
			continue
		}
		p.at++
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		out = utf8.AppendRune(out, r)
	}
	return "", p.wrong("it ends early")
}

// escape reads what follows a backslash.
func (p *parser) escape() (rune, error) {
	if p.at >= len(p.in) {
		return 0, p.wrong("it ends early")
	}
	var r rune
	switch c := p.in[p.at]; c {
	case '"', '\\', '/':
		r = rune(c)
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		return p.utf16()
	default:
		return 0, p.wrong("an unknown escape")
	}
	p.at++
	return r, nil
}

// utf16 reads u and four hexadecimal digits, twice for a surrogate pair.
func (p *parser) utf16() (rune, error) {
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if p.at < len(p.in) && p.in[p.at] == '\\' {
		p.at++
		low, err := p.hex()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, p.wrong("half of a surrogate pair")
}

// hex reads u and four hexadecimal digits.
func (p *parser) hex() (r rune, err error) {
	if p.at+5 > len(p.in) || p.in[p.at] != 'u' {
		return 0, p.wrong("an incomplete escape")
	}
	for _, c := range p.in[p.at+1 : p.at+5] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, p.wrong("an incomplete escape")
		}
		r = r<<4 | rune(c)
	}
	p.at += 5
	return r, nil
}

func (p *parser) number() (any, error) {
	begin := p.at
	if p.in[p.at] == '-' {
		p.at++
	}
	whole := p.digits()
	if whole == 0 || whole > 1 && p.in[p.at-whole] == '0' {
		return nil, p.wrong("no number")
	}
	exact := true
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		exact = false
		if p.digits() == 0 {
			return nil, p.wrong("no number")
		}
	}
	if p.at < len(p.in) && (p.in[p.at] == 'e' || p.in[p.at] == 'E') {
		p.at++
		exact = false
		if p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return nil, p.wrong("no number")
		}
	}
	text := p.in[begin:p.at]
	if len(text) > maxNumber {
		return nil, fmt.Errorf("a number is longer than %d digits", maxNumber)
	}
	if !exact || len(text) > 18 {
		if _, err := strconv.ParseFloat(string(text), 64); err != nil {
			return nil, fmt.Errorf("a number is too big")
		}
	}
	return number(text), nil
}

func (p *parser) digits() (n int) {
	for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		p.at++
		n++
	}
	return n
}
