package egress

import (
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// depth says how many labels a wildcard stands for.
type depth int

const (
	exact    depth = iota // none: the name itself
	oneLabel              // "*."
	anyDepth              // "**."
)

// pattern is the Name of a rule, parsed.
type pattern struct {
	base  Name
	depth depth
}

// parsePattern reads a name, "*.name" or "**.name". Other stars are refused:
// what they would match differs from tool to tool.
func parsePattern(s string, suffix publicSuffix) (pattern, error) {
	p := pattern{}
	rest := s
	switch {
	case strings.HasPrefix(s, "**."):
		p.depth, rest = anyDepth, s[3:]
	case strings.HasPrefix(s, "*."):
		p.depth, rest = oneLabel, s[2:]
	}
	switch {
	case s == "":
		return p, fmt.Errorf("it is empty; write a name such as %q", "files.example.org")
	case strings.Contains(rest, "*"):
		return p, fmt.Errorf("a star may only stand in front, as %q (one label) or %q (any number)", "*.", "**.")
	case strings.ContainsAny(rest, ":/@"):
		return p, fmt.Errorf("it is not a host name; ports and paths have settings of their own")
	}
	var err error
	if p.base, err = authorName(rest); err != nil {
		return p, err
	}
	if p.depth == exact {
		return p, nil
	}
	if !strings.Contains(string(p.base), ".") {
		return p, fmt.Errorf("below %q is far too much; name a domain of two labels or more", rest)
	}
	if list, _ := publicsuffix.PublicSuffix(string(p.base)); suffix != publicSuffixAllowed && list == string(p.base) {
		return p, fmt.Errorf("anybody can have a name below %q (public suffix list); name one, or set public-suffix = true in the rule of a policy file", rest)
	}
	return p, nil
}

// publicSuffix says whether a wildcard may stand below a public suffix.
type publicSuffix int

const (
	publicSuffixRefused publicSuffix = iota
	publicSuffixAllowed
)

// matches compares labels, never ends of strings.
func (p pattern) matches(n Name) bool {
	if p.depth == exact {
		return p.base == n
	}
	if n.special() {
		return false // only an exact rule opens these
	}
	head, found := strings.CutSuffix(string(n), "."+string(p.base))
	if !found || head == "" {
		return false
	}
	return p.depth == anyDepth || !strings.Contains(head, ".")
}

// wider is the pattern that would have matched a name that this one does not,
// for a hint; "" if none would.
func (p pattern) wider(n Name) string {
	below := strings.HasSuffix(string(n), "."+string(p.base))
	switch {
	case p.depth == oneLabel && below:
		return "**." + string(p.base)
	case p.depth == exact && below:
		return "**." + string(p.base)
	case p.depth != exact && n == p.base:
		return string(p.base)
	}
	return ""
}
