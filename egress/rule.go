package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy is what a sandbox may reach. The zero value is no network at all. It
// is a value: it is read, never changed.
type Policy struct {
	Mode Mode `json:"mode"`
	// Rules allow. In ModeRestricted an empty list allows nothing.
	Rules []Rule `json:"rules,omitempty"`
	// Deny takes away, whatever Rules say.
	Deny []Deny `json:"deny,omitempty"`
	// Exempt are ranges that count as public although they are not: those from
	// which a tunnel of the host's gives out synthetic addresses. CIDR form.
	Exempt []string `json:"exempt,omitempty"`
	// IPv6 gives the sandbox IPv6 beside IPv4, as it is made: names have addresses
	// of both, and rules for ranges of IPv6 can be used by programs.
	IPv6 bool `json:"ipv6,omitempty"`
	// HostPorts are the TCP ports of this machine's loopback that the program may
	// reach, at HostName. No rule can open them.
	HostPorts []int `json:"host_ports,omitempty"`
	// DNS says which addresses names have inside. Zero is DNSSynthetic.
	DNS DNS `json:"dns,omitempty"`
}

// Mode is the network mode.
type Mode int

// The modes.
const (
	// ModeNone is a network namespace with loopback and nothing else.
	ModeNone Mode = iota
	// ModeRestricted reaches what Rules name.
	ModeRestricted
	// ModeFull reaches every public address.
	ModeFull
)

var modeNames = names[Mode]{"none", "restricted", "full"}

func (m Mode) String() string                { return modeNames.text(m) }
func (m Mode) MarshalText() ([]byte, error)  { return modeNames.marshal(m) }
func (m *Mode) UnmarshalText(b []byte) error { return modeNames.unmarshal("network mode", m, b) }

// Rule allows a name or a range, on ports, with a protocol.
type Rule struct {
	// Name is a host name, "*.name" for one label below or "**.name" for any
	// number; neither includes the name itself.
	Name string `json:"name,omitempty"`
	// CIDR is a range of addresses, in place of Name. It needs Ports and Protocol.
	CIDR string `json:"cidr,omitempty"`
	// Ports are TCP or UDP ports. Empty means 443, 80 for http, 22 for ssh.
	Ports []int `json:"ports,omitempty"`
	// Protocol is what is spoken there. Zero is HTTPS.
	Protocol Protocol `json:"protocol"`
	// TLS says whether TLS is looked into. Zero is Peek. Methods, Paths and
	// Inject need Intercept, and mean it.
	TLS TLS `json:"tls"`
	// Methods are the HTTP methods allowed. Empty means all but CONNECT and
	// TRACE, which never are.
	Methods []string `json:"methods,omitempty"`
	// Paths are the paths allowed: "/v1/items", "*" for one segment, "**" at
	// the end for any number. Empty means all.
	Paths []string `json:"paths,omitempty"`
	// WebSocket allows upgrades to WebSocket, after which only bytes and time
	// are limited.
	WebSocket bool `json:"websocket,omitempty"`
	// Private are the private ranges that the name may lead to, in CIDR form.
	Private []string `json:"private,omitempty"`
	// For is how long the rule holds from the start of the run. Zero means as
	// long as the sandbox lives.
	For time.Duration `json:"for_ns,omitempty"`
	// Until is when it ends, if not zero: in the years 0 to 9999.
	Until time.Time `json:"until,omitzero"`
	// MaxFlows is how many connections it allows in all. Zero means no limit.
	MaxFlows int `json:"max_flows,omitempty"`
	// MaxBytesOut is how much all of them may send, in bytes. Zero means no limit.
	MaxBytesOut int64 `json:"max_bytes_out,omitempty"`
	// PublicSuffix lets a wildcard stand below a public suffix, where anybody
	// can have a name.
	PublicSuffix bool `json:"public_suffix,omitempty"`
	// Inject replaces what the program sends in a header by a secret that it
	// does not have.
	Inject []Secret `json:"inject,omitempty"`
	// ID names the rule in denials and the log. Empty means a text made of
	// protocol, host and ports.
	ID string `json:"id,omitempty"`
	// Reason is shown when the rule's time or uses are over.
	Reason string `json:"reason,omitempty"`
}

// Secret is a header that is filled in outside of the sandbox.
type Secret struct {
	// Header is the name of the HTTP header.
	Header string `json:"header"`
	// Variable is the environment variable of the host that has the value. In
	// the sandbox a variable of this name holds a placeholder.
	Variable string `json:"variable"`
	// Prefix is put before the value: "Bearer ".
	Prefix string `json:"prefix,omitempty"`
}

// Deny takes a name or a range away.
type Deny struct {
	Name string `json:"name,omitempty"` // as in Rule
	CIDR string `json:"cidr,omitempty"`
	// Ports; empty means all.
	Ports []int `json:"ports,omitempty"`
}

// Protocol is what is spoken on a connection.
type Protocol int

// The protocols.
const (
	HTTPS   Protocol = iota // TLS with the rule's name
	HTTP                    // plain HTTP/1, every request judged
	TLSOnly                 // TLS with the rule's name, anything in it
	TCP                     // any bytes
	SSH                     // any bytes, port 22
	UDP
)

var protocolNames = names[Protocol]{"https", "http", "tls", "tcp", "ssh", "udp"}

func (p Protocol) String() string                { return protocolNames.text(p) }
func (p Protocol) MarshalText() ([]byte, error)  { return protocolNames.marshal(p) }
func (p *Protocol) UnmarshalText(b []byte) error { return protocolNames.unmarshal("protocol", p, b) }

// TLS says what is done with TLS.
type TLS int

// What is done with TLS.
const (
	// Peek reads the name in the first message and passes everything on.
	Peek TLS = iota
	// Intercept ends it with a certificate of the sandbox's own and judges
	// every request.
	Intercept
)

var tlsNames = names[TLS]{"peek", "intercept"}

func (t TLS) String() string                { return tlsNames.text(t) }
func (t TLS) MarshalText() ([]byte, error)  { return tlsNames.marshal(t) }
func (t *TLS) UnmarshalText(b []byte) error { return tlsNames.unmarshal("tls", t, b) }

// names are the texts of a small enumeration.
type names[T ~int] []string

func (n names[T]) text(v T) string {
	if int(v) < 0 || int(v) >= len(n) {
		return "invalid"
	}
	return n[v]
}

func (n names[T]) marshal(v T) ([]byte, error) {
	if int(v) < 0 || int(v) >= len(n) {
		return nil, fmt.Errorf("cannot write value %d: there is none", int(v))
	}
	return []byte(n[v]), nil
}

func (n names[T]) unmarshal(what string, v *T, b []byte) error {
	i := slices.Index(n, string(b))
	if i < 0 {
		return fmt.Errorf("cannot read %s %q: it is one of %s", what, b, strings.Join(n, ", "))
	}
	*v = T(i)
	return nil
}

// ports are the ports in force.
func (r Rule) ports() []int {
	if len(r.Ports) > 0 {
		return r.Ports
	}
	switch r.Protocol {
	case HTTPS, TLSOnly:
		return []int{443}
	case HTTP:
		return []int{80}
	case SSH:
		return []int{22}
	}
	return nil
}

// intercepts tells whether TLS is ended and looked into.
func (r Rule) intercepts() bool {
	return r.TLS == Intercept || r.Protocol == HTTPS && (len(r.Methods) > 0 || len(r.Paths) > 0 || len(r.Inject) > 0 || r.WebSocket)
}

// Intercepts tells whether the rule looks into TLS.
func (r Rule) Intercepts() bool { return r.intercepts() }

// String names a rule by what it allows: "https:files.example:443".
func (r Rule) String() string {
	if r.ID != "" {
		return r.ID
	}
	var p []string
	for _, n := range r.ports() {
		p = append(p, strconv.Itoa(n))
	}
	return r.Protocol.String() + ":" + r.Name + r.CIDR + ":" + strings.Join(p, "+")
}

// Problem is one thing that is wrong with a policy.
type Problem struct {
	// Field is where: "allow[1].name".
	Field string
	// What is wrong, lower case; Hint is what to do.
	What, Hint string
}

func (p Problem) Error() string { return p.What }

// Check says what is wrong with a policy; nil means nothing.
func (p Policy) Check() []Problem {
	var c checker
	if _, err := p.Mode.MarshalText(); err != nil {
		c.add("mode", err.Error(), "use none, restricted or full")
	}
	if _, err := p.DNS.MarshalText(); err != nil {
		c.add("dns", err.Error(), "use synthetic or real")
	}
	if p.Mode == ModeNone && (len(p.Rules)+len(p.Deny)+len(p.Exempt)+len(p.HostPorts)+int(p.DNS) > 0 || p.IPv6) {
		c.add("mode", "cannot have network rules with mode none", "set the mode to restricted")
	}
	for i, r := range p.Rules {
		at := fmt.Sprintf("allow[%d]", i)
		c.rule(at, r)
		c.closed(at+".cidr", []string{r.CIDR}, p.Exempt)
		c.closed(at+".private", r.Private, p.Exempt)
	}
	for i, d := range p.Deny {
		c.target(fmt.Sprintf("deny[%d]", i), d.Name, d.CIDR, publicSuffixAllowed)
		c.ports(fmt.Sprintf("deny[%d].ports", i), d.Ports)
	}
	c.cidrs("exempt", p.Exempt)
	c.exempt(p.Exempt)
	c.hostPorts(p.HostPorts)
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) add(field, what, hint string) {
	c.problems = append(c.problems, Problem{field, what, hint})
}

func (c *checker) rule(at string, r Rule) {
	suffix := publicSuffixRefused
	if r.PublicSuffix {
		suffix = publicSuffixAllowed
	}
	c.target(at, r.Name, r.CIDR, suffix)
	c.loopback(at, r)
	c.ports(at+".ports", r.Ports)
	c.cidrs(at+".private", r.Private)
	if len(r.ports()) == 0 {
		c.add(at+".ports", fmt.Sprintf("cannot allow %s without ports", r.Protocol), "write ports = [5432]")
	}
	if r.CIDR != "" && (len(r.Ports) == 0 || r.Protocol == HTTPS || r.Protocol == TLSOnly) {
		c.add(at+".cidr", "cannot allow addresses without ports and a protocol that has no name in it", "add ports and protocol = \"tcp\", or allow a name")
	}
	if r.Protocol != HTTPS && r.TLS == Intercept {
		c.add(at+".tls", fmt.Sprintf("cannot intercept protocol %s", r.Protocol), "use protocol https")
	}
	web := len(r.Methods) > 0 || len(r.Paths) > 0 || r.WebSocket
	if web && r.Protocol != HTTPS && r.Protocol != HTTP {
		c.add(at+".paths", fmt.Sprintf("cannot judge requests of protocol %s", r.Protocol), "use protocol https or http")
	}
	if len(r.Inject) > 0 && (r.Protocol != HTTPS || r.CIDR != "" || strings.HasPrefix(r.Name, "*")) {
		c.add(at+".inject", "cannot put a secret into anything but https to one name", "name the host exactly")
	}
	for i, s := range r.Inject {
		if !token(s.Header) || !variable(s.Variable) {
			c.add(fmt.Sprintf("%s.inject[%d]", at, i), "cannot read secret: it needs a header and a variable", `write { header = "Authorization", variable = "API_TOKEN" }`)
		}
	}
	c.web(at, r)
	if r.For < 0 || r.MaxFlows < 0 || r.MaxBytesOut < 0 {
		c.add(at, "cannot use a negative limit", "leave it out for none")
	}
	for _, t := range []time.Time{r.Until, r.Until.UTC()} {
		if y := t.Year(); y < 0 || y > 9999 { // such a time has no text
			c.add(at+".until", fmt.Sprintf("cannot end a rule in the year %d", y), "name a time before the year 10000, or leave it out: the rule holds as long as the sandbox then")
			break
		}
	}
}

func (c *checker) web(at string, r Rule) {
	for i, m := range r.Methods {
		if !token(m) || m != strings.ToUpper(m) || m == "CONNECT" || m == "TRACE" {
			c.add(fmt.Sprintf("%s.methods[%d]", at, i), fmt.Sprintf("cannot allow method %q", m), `write methods in capitals, such as "GET"; CONNECT and TRACE never are allowed`)
		}
	}
	for i, p := range r.Paths {
		if _, err := parsePath(p); err != nil {
			c.add(fmt.Sprintf("%s.paths[%d]", at, i), fmt.Sprintf("cannot allow path %q: %v", p, err), `write "/v1/**"`)
		}
	}
}

func (c *checker) target(at, name, cidr string, suffix publicSuffix) {
	switch {
	case name != "" && cidr != "":
		c.add(at, "cannot have name and cidr in one rule", "make two of it")
	case cidr != "":
		c.cidrs(at+".cidr", []string{cidr})
	default:
		if _, err := parsePattern(name, suffix); err != nil {
			c.add(at+".name", fmt.Sprintf("cannot allow %q: %v", name, err), `write a host name, "*.example.org" or "**.example.org"`)
		}
	}
}

// loopback refuses rules that nothing would ever come of: in a sandbox these
// names and addresses are the sandbox's own.
func (c *checker) loopback(at string, r Rule) {
	port := 8000
	if len(r.Ports) > 0 {
		port = r.Ports[0]
	}
	hint := fmt.Sprintf("grant the service by its port, --net host:%d or host-ports = [%d], or give the program a tool that asks it", port, port)
	if n, err := authorName(r.Name); err == nil && (n.IsLocalhost() || n == HostName) {
		c.add(at+".name", fmt.Sprintf("cannot allow %q: no rule opens the loopback of this machine", r.Name), hint)
	}
	if p, err := netip.ParsePrefix(r.CIDR); err == nil && p.Addr().IsLoopback() {
		c.add(at+".cidr", fmt.Sprintf("cannot allow %s: no rule opens the loopback of this machine", r.CIDR), hint)
	}
}

// closed refuses ranges that no rule opens: metadata services, the link, what no
// host has. Loopback has words of its own.
func (c *checker) closed(at string, list, exempt []string) {
	for _, r := range readable(list) {
		var class Class
		for _, k := range ranges {
			if k.class != ClassPrivate && k.class != ClassLoopback && within(k.in, r) && !within(readable(exempt), r) {
				class = k.class
			}
		}
		if within(metadata, r) {
			class = ClassMetadata
		}
		if class != "" {
			c.add(at, fmt.Sprintf("cannot allow %s: no sandbox reaches an address of class %s", r, class), "give the program a tool that asks the service")
		}
	}
}

// readable are the ranges of a list that are ranges; of the others is told
// elsewhere.
func readable(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// within tells whether all of r lies in one range of a list.
func within(list []netip.Prefix, r netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(r.Addr()) && p.Bits() <= r.Bits() })
}

func (c *checker) ports(at string, ports []int) {
	for _, p := range ports {
		if p < 1 || p > 65535 {
			c.add(at, fmt.Sprintf("cannot use port %d: ports are 1 to 65535", p), "write ports = [443]")
		}
	}
}

// tunnels are the ranges from which tunnels give out synthetic addresses.
var tunnels = prefixes("198.18.0.0/15", "240.0.0.0/4", "100.64.0.0/10", "fc00::/7")

// exempt checks that no range is opened that leads to this machine or its link.
func (c *checker) exempt(list []string) {
	for _, p := range readable(list) {
		if !within(tunnels, p) {
			c.add("exempt", fmt.Sprintf("cannot exempt %q: no tunnel gives out addresses of it", p), "exempt a part of 198.18.0.0/15, 240.0.0.0/4, 100.64.0.0/10 or fc00::/7")
		}
	}
}

func (c *checker) cidrs(at string, list []string) {
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err != nil || p != p.Masked() || p.Addr().Is4In6() {
			c.add(at, fmt.Sprintf("cannot read range %q", s), "write the first address and a length, such as 10.1.2.0/24")
		}
	}
}

// token tells whether s is a token of RFC 9110.
func token(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 0x7f || c <= ' ' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

func variable(s string) bool {
	if s == "" || '0' <= s[0] && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Modes are the names of the modes.
func Modes() []string { return slices.Clone(modeNames) }
