package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Name is a canonical host name: lower-case ASCII labels, no dot at the end.
type Name string

// Limits of RFC 1035.
const (
	maxName  = 253
	maxLabel = 63
)

// errName is why something is no canonical name. The program sees only that.
var errName = errors.New("it is not a host name")

// CanonicalName reads a name as it comes from inside. Anything that two programs
// could read differently is no name: other characters, empty labels, and
// names whose last label is a number, which many resolvers take for addresses.
func CanonicalName(s string) (Name, error) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxName {
		return "", errName
	}
	s = lower(s)
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return "", errName
		}
	}
	if numeric(s[strings.LastIndexByte(s, '.')+1:]) {
		return "", errName
	}
	return Name(s), nil
}

// lower is strings.ToLower for ASCII only: other letters stay, and are refused.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

func validLabel(l string) bool {
	if l == "" || len(l) > maxLabel {
		return false
	}
	for i := range len(l) {
		switch c := l[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// numeric tells whether inet_aton and its relatives could take a last label for
// a number (127.1, 0177.0.0.1, 0x7f000001, 2130706433).
func numeric(l string) bool {
	if strings.HasPrefix(l, "0x") {
		return true
	}
	for i := range len(l) {
		if l[i] < '0' || l[i] > '9' {
			return false
		}
	}
	return true
}

// specialZones never leave a sandbox unless a rule names them exactly: they
// are names of a local network, of the machine, or of nobody.
var specialZones = []Name{"local", "internal", "arpa", "onion", "invalid", "test"}

// special tells whether a name needs an exact rule.
func (n Name) special() bool {
	if !strings.Contains(string(n), ".") {
		return true
	}
	for _, z := range specialZones {
		if strings.HasSuffix(string(n), "."+string(z)) {
			return true
		}
	}
	return false
}

// IsLocalhost tells whether a name means the sandbox itself.
func (n Name) IsLocalhost() bool {
	return n == "localhost" || strings.HasSuffix(string(n), ".localhost")
}

// Host is what a flow goes to: a name or an address. The zero value is neither.
type Host struct {
	Name Name
	Addr netip.Addr // valid if Name is empty
}

// ParseHost reads a host as it comes from inside, without port: an address in
// one of the forms of package netip, in brackets or not, or a name.
func ParseHost(s string) (Host, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
		if !strings.Contains(bare, ":") {
			return Host{}, errName
		}
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		if a.Zone() != "" {
			return Host{}, errName
		}
		return Host{Addr: a}, nil
	}
	n, err := CanonicalName(s)
	return Host{Name: n}, err
}

func (h Host) String() string {
	if h.Name != "" {
		return string(h.Name)
	}
	if h.Addr.IsValid() {
		return h.Addr.String()
	}
	return "(nothing)"
}

// authorName reads a name of a policy, which may be written in any script.
func authorName(s string) (Name, error) {
	ascii, err := idna.Lookup.ToASCII(s)
	if err != nil {
		// underscores are in names of services; IDNA does not know them
		if n, err2 := CanonicalName(s); err2 == nil {
			return n, nil
		}
		return "", fmt.Errorf("%w: %w", errName, err)
	}
	return CanonicalName(ascii)
}
