package egress

import (
	"errors"
	"strings"
)

// pathPattern is the path of a rule: segments, "*" for any one, "**" at the end
// for any number.
type pathPattern []string

func parsePath(s string) (pathPattern, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, errors.New("it does not begin with a slash")
	}
	segments := strings.Split(s[1:], "/")
	for i, g := range segments {
		switch {
		case g == "**" && i != len(segments)-1:
			return nil, errors.New(`"**" may only stand at the end`)
		case g == "*" || g == "**":
		case strings.Contains(g, "*"):
			return nil, errors.New("a star stands for a whole segment")
		}
	}
	if ambiguous(strings.NewReplacer("/**", "/x", "*", "x").Replace(s)) {
		return nil, errors.New("it can be read in two ways")
	}
	return segments, nil
}

func (p pathPattern) matches(path string) bool {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, g := range p {
		if g == "**" {
			return true
		}
		if i >= len(segments) || g != "*" && g != segments[i] || g == "*" && segments[i] == "" {
			return false
		}
	}
	return len(segments) == len(p)
}

// ambiguous tells whether servers could read an escaped path differently than
// it is written here. Such a path is refused, not cleaned: the server gets what
// the client sent, so both have to mean the same.
func ambiguous(path string) bool {
	if !strings.HasPrefix(path, "/") {
		return true
	}
	low := strings.ToLower(path)
	if strings.Contains(path, "//") || strings.Contains(path, `\`) || strings.Contains(path, ";") {
		return true
	}
	for i := range len(low) {
		c := low[i]
		if c <= ' ' || c == 0x7f {
			return true
		}
		if c != '%' {
			continue
		}
		if i+2 >= len(low) || !hex(low[i+1]) || !hex(low[i+2]) {
			return true
		}
		switch low[i+1 : i+3] {
		case "2f", "2e", "25", "5c", "3b":
			return true
		}
		if low[i+1] < '2' || low[i+1:i+3] == "7f" { // encoded control characters
			return true
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

func hex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
