package egress

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// AnyPort stands for "some port": the question of a look-up.
const AnyPort = 0

// Transport is what a flow is carried by.
type Transport string

// The transports.
const (
	OverTCP   Transport = "tcp"
	OverUDP   Transport = "udp"
	OverDNS   Transport = "dns" // a look-up: no flow yet
	OverOther Transport = "other"
)

// Flow is what is asked about. It grows: first where to, then what the
// first bytes say, then which addresses the name has.
type Flow struct {
	Host Host
	// Names are the names that Host, an address, was told for (DNSReal): the flow
	// is to one of them. Empty once it is known which.
	Names     []Name
	Port      uint16
	Transport Transport
	// Peek is what the first bytes say; nil if they have not been read.
	Peek *Seen
	// Addrs are all addresses of the name; nil if it has not been resolved.
	Addrs []netip.Addr
	// Resolved is whether Addrs have been looked for.
	Resolved bool
}

// Seen is what the first bytes of a flow are.
type Seen struct {
	Kind Kind
	// Server is the name in a TLS hello, Host the one in an HTTP request.
	Server, Host string
	// ALPN are the protocols of a TLS hello, for the log.
	ALPN []string
	// ECH is whether a TLS hello hides its name.
	ECH bool
}

// Kind is what bytes look like.
type Kind string

// The kinds.
const (
	SeenTLS    Kind = "tls"
	SeenHTTP   Kind = "http"
	SeenOther  Kind = "other"
	SeenSilent Kind = "silent" // nothing in time
)

// Verdict is what becomes of a flow.
type Verdict string

// The verdicts.
const (
	Allow  Verdict = "allow"
	Refuse Verdict = "deny"
)

// Decision is a verdict with its reasons.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	// Host is whom the flow is to; neither name nor address as long as its first
	// bytes have to tell.
	Host Host `json:"-"`
	// Rule is the id of the rule that allows, or whose limit denies.
	Rule   string `json:"rule,omitempty"`
	Reason Reason `json:"reason,omitempty"`
	// Class is the kind of address that was denied.
	Class Class `json:"addr_class,omitempty"`
	// Hint is what a policy would have to say to allow this.
	Hint string `json:"hint,omitempty"`
	// Protocol and TLS say how to go on.
	Protocol Protocol `json:"protocol"`
	TLS      TLS      `json:"tls"`

	account account
}

// Allowed tells whether the verdict is Allow.
func (d Decision) Allowed() bool { return d.Verdict == Allow }

// Use is what a rule has been used for.
type Use struct {
	Flows    int
	BytesOut int64
}

// Uses are the uses of rules. Nil means that they do not matter.
type Uses map[account]Use

// account is what uses count for: a rule as it is known from one generation of
// a sandbox's policy to the next. It does not depend on what else is in the
// policy, so that the end of a grant moves no use to another rule.
type account struct {
	rule  string    // as Rule.String
	until time.Time // as Rule.Until: each grant has its own
	// nth counts rules that have both in common. They end at the same time.
	nth int
}

func refuse(r Reason) Decision { return Decision{Verdict: Refuse, Reason: r} }

// Decide judges a flow as far as it is known. It is a pure function: the floor
// first, then what is denied, then time and uses, then what is allowed, then
// the mode.
func (g *Generation) Decide(at time.Time, uses Uses, f Flow) Decision {
	if len(f.Names) > 0 {
		return g.among(at, uses, f)
	}
	d := g.decide(at, uses, f)
	d.Host = f.Host
	return d
}

// decide judges a flow whose host is known.
func (g *Generation) decide(at time.Time, uses Uses, f Flow) Decision {
	if d, ok := g.lower(f); !ok {
		return d
	}
	if f.Host.Name == HostName {
		return g.hostPort(f)
	}
	r, d := g.choose(at, uses, f)
	if !d.Allowed() {
		return d
	}
	if f.Peek != nil {
		if reason := agree(f, d, *f.Peek); reason != "" {
			d.Verdict, d.Reason = Refuse, reason
			return d
		}
	}
	if f.Resolved {
		return g.addresses(f, g.privateOf(f, r), d)
	}
	return d
}

// lower judges what no rule can open.
func (g *Generation) lower(f Flow) (Decision, bool) {
	if g.mode == ModeNone {
		return refuse(ReasonNameNotAllowed), false
	}
	if f.Transport == OverOther {
		return refuse(ReasonProtoNotAllowed), false
	}
	switch h := f.Host; {
	case h.Name == "" && !h.Addr.IsValid():
		return refuse(ReasonNameInvalid), false
	case h.Name != "" && h.Name.IsLocalhost():
		return Decision{Verdict: Refuse, Reason: ReasonAddrDenied, Class: ClassLoopback}, false
	case h.Name == "" && IsSynthetic(h.Addr):
		return refuse(ReasonUnmappedAddr), false
	case h.Name == "":
		if c := g.floor.Classify(h.Addr); c != ClassPublic && c != ClassPrivate {
			return Decision{Verdict: Refuse, Reason: ReasonAddrDenied, Class: c}, false
		}
	}
	for _, t := range g.deny {
		if t.denies(f.Host) && t.covers(f.Port) {
			return refuse(ReasonDeniedByRule), false
		}
	}
	return Decision{}, true
}

// choose finds the rule for a flow. Without one, how near the nearest came is
// the reason.
func (g *Generation) choose(at time.Time, uses Uses, f Flow) (*rule, Decision) {
	const ( // how near a rule came
		nothing = iota
		host
		port
		transport
		expired
		exhausted
	)
	near, nearest := nothing, (*rule)(nil)
	for i := range g.rules {
		r := &g.rules[i]
		if !r.matches(f.Host) {
			continue
		}
		came := exhausted + 1
		switch {
		case !r.hasPort(f.Port):
			came = host
		case !r.carries(f.Transport):
			came = port
		case !r.ends.IsZero() && !at.Before(r.ends):
			came = expired
		case uses != nil && r.spent(uses[r.account]):
			came = exhausted
		}
		if came > exhausted {
			return r, Decision{Verdict: Allow, Rule: r.id, Protocol: r.Protocol, TLS: r.tls(), account: r.account}
		}
		if came > near {
			near, nearest = came, r
		}
	}
	if g.mode == ModeFull {
		return nil, g.openMode(f)
	}
	d := refuse(ReasonNameNotAllowed)
	switch near {
	case nothing:
		d.Reason, d.Class = g.nowhere(f.Host)
		d.Hint = g.hint(f)
	case host:
		d.Reason, d.Hint = ReasonPortNotAllowed, g.hint(f)
	case port:
		d.Reason = ReasonProtoNotAllowed
	case expired:
		d.Reason = ReasonRuleExpired
	case exhausted:
		d.Reason = ReasonRuleExhausted
	}
	if nearest != nil {
		d.Rule = nearest.id
	}
	return nil, d
}

// nowhere is the reason for a host that no rule means.
func (g *Generation) nowhere(h Host) (Reason, Class) {
	if h.Name != "" {
		return ReasonNameNotAllowed, ""
	}
	if c := g.floor.Classify(h.Addr); c != ClassPublic {
		return ReasonAddrDenied, c
	}
	return ReasonIPLiteral, ""
}

// smtp is closed in ModeFull: mail from a sandbox is abuse more often than not.
const smtp = 25

// openMode is ModeFull where no rule means the flow.
func (g *Generation) openMode(f Flow) Decision {
	d := Decision{Verdict: Allow, Rule: "full", Protocol: TCP, account: account{rule: "full"}}
	if f.Transport == OverUDP {
		d.Protocol = UDP
	}
	switch {
	case f.Port == smtp && f.Transport == OverTCP:
		return refuse(ReasonPortNotAllowed)
	case f.Host.Name != "" && f.Host.Name.special():
		return refuse(ReasonNameNotAllowed)
	case f.Host.Name == "":
		if c := g.floor.Classify(f.Host.Addr); c != ClassPublic {
			return Decision{Verdict: Refuse, Reason: ReasonAddrDenied, Class: c}
		}
	}
	return d
}

func (r *rule) carries(t Transport) bool {
	switch t {
	case OverDNS:
		return true
	case OverUDP:
		return r.Protocol == UDP
	}
	return r.Protocol != UDP
}

func (r *rule) spent(u Use) bool {
	return r.MaxFlows > 0 && u.Flows >= r.MaxFlows || r.MaxBytesOut > 0 && u.BytesOut >= r.MaxBytesOut
}

func (r *rule) tls() TLS {
	if r.intercepts() {
		return Intercept
	}
	return Peek
}

// agree compares what the first bytes say with where the flow goes.
func agree(f Flow, d Decision, s Seen) Reason {
	switch d.Protocol {
	case HTTPS, TLSOnly:
		switch {
		case s.Kind == SeenSilent:
			return ReasonHelloTimeout
		case s.Kind != SeenTLS:
			return ReasonProtoNotAllowed
		case s.ECH && d.TLS == Peek:
			return ReasonECH
		case s.Server == "":
			return ReasonSNIMissing
		case !sameName(s.Server, f.Host.Name):
			return ReasonSNIMismatch
		}
	case HTTP:
		switch {
		case s.Kind == SeenSilent:
			return ReasonHelloTimeout
		case s.Kind != SeenHTTP:
			return ReasonProtoNotAllowed
		}
	}
	return ""
}

func sameName(s string, n Name) bool {
	got, err := CanonicalName(s)
	return err == nil && got == n
}

// privateOf are the private ranges that a flow may lead to: those of its rule,
// or for a look-up, of which the port is not known, those of every rule.
func (g *Generation) privateOf(f Flow, r *rule) []netip.Prefix {
	var all []netip.Prefix
	switch {
	case f.Port != AnyPort && r == nil:
		return nil
	case f.Port != AnyPort:
		return r.private
	}
	for i := range g.rules {
		if g.rules[i].matches(f.Host) {
			all = append(all, g.rules[i].private...)
		}
	}
	return all
}

// addresses judges what the name leads to.
func (g *Generation) addresses(f Flow, private []netip.Prefix, d Decision) Decision {
	if reason, class := g.floor.verdictOf(f.Addrs, private); reason != "" {
		d.Verdict, d.Reason, d.Class = Refuse, reason, class
		return d
	}
	for _, a := range f.Addrs {
		if slices.ContainsFunc(g.deny, func(t target) bool { return t.denies(Host{Addr: a}) && t.covers(f.Port) }) {
			d.Verdict, d.Reason = Refuse, ReasonDeniedByRule
			return d
		}
	}
	return d
}

// hint is the smallest addition that would allow a flow.
func (g *Generation) hint(f Flow) string {
	if f.Host.Name == "" || f.Host.Name.IsLocalhost() {
		return ""
	}
	port := ""
	if f.Port != AnyPort && f.Port != 443 {
		port = ":" + utoa(f.Port)
	}
	hint := "--net allow:" + string(f.Host.Name) + port
	for _, r := range g.rules {
		if r.cidr.IsValid() {
			continue
		}
		if w := r.name.wider(f.Host.Name); w != "" && strings.Contains(string(r.name.base), ".") {
			return hint + " (or " + w + ")"
		}
	}
	return hint
}

func utoa(v uint16) string {
	var b [5]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + v%10)
		if v /= 10; v == 0 {
			return string(b[i:])
		}
	}
}
