package egress

import (
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Generation is a policy as it is judged by, with what the machine adds. It is
// never changed: another policy is another generation.
type Generation struct {
	// Number counts the generations of a sandbox from 1.
	Number uint64
	mode   Mode
	dns    DNS
	ipv6   bool
	// hostPorts are the ports of this machine's loopback that are granted.
	hostPorts []int
	rules     []rule
	deny      []target
	floor     Floor
}

// target is a name pattern or a range.
type target struct {
	name  pattern
	cidr  netip.Prefix // valid if it is a range
	ports []int        // nil means all
}

// rule is a Rule, parsed.
type rule struct {
	Rule
	target
	id      string // unique in this generation
	account account
	private []netip.Prefix
	paths   []pathPattern
	ends    time.Time // zero: never
}

// Compile makes a generation of a policy whose clock starts at granted.
func Compile(p Policy, floor Floor, number uint64, granted time.Time) (*Generation, error) {
	var errs []error
	for _, x := range p.Check() {
		errs = append(errs, x)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	g := &Generation{Number: number, mode: p.Mode, dns: p.DNS, ipv6: p.IPv6, hostPorts: p.HostPorts, floor: floor}
	g.floor.Exempt = append(slices.Clone(floor.Exempt), parsed(p.Exempt)...)
	seen, accounts := map[string]int{}, map[account]int{}
	for _, r := range p.Rules {
		c := rule{Rule: r, target: parseTarget(r.Name, r.CIDR, r.ports()), id: r.String(), private: parsed(r.Private)}
		if c.cidr.IsValid() {
			c.private = append(c.private, c.cidr)
		}
		for _, path := range r.Paths {
			pp, _ := parsePath(path)
			c.paths = append(c.paths, pp)
		}
		if r.For > 0 {
			c.ends = granted.Add(r.For)
		}
		if !r.Until.IsZero() && (c.ends.IsZero() || r.Until.Before(c.ends)) {
			c.ends = r.Until
		}
		if seen[c.id]++; seen[c.id] > 1 {
			c.id += "#" + string(rune('0'+min(seen[c.id], 9)))
		}
		c.account = account{rule: r.String(), until: r.Until.UTC()}
		n := accounts[c.account]
		accounts[c.account]++
		c.account.nth = n
		g.rules = append(g.rules, c)
	}
	for _, d := range p.Deny {
		g.deny = append(g.deny, parseTarget(d.Name, d.CIDR, d.Ports))
	}
	return g, nil
}

func parsed(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s)) // Check has read it
	}
	return out
}

func parseTarget(name, cidr string, ports []int) target {
	t := target{ports: ports}
	if cidr != "" {
		t.cidr = netip.MustParsePrefix(cidr)
		return t
	}
	t.name, _ = parsePattern(name, publicSuffixAllowed)
	return t
}

// matches tells whether a host is meant.
func (t target) matches(h Host) bool {
	if t.cidr.IsValid() {
		return h.Name == "" && t.cidr.Contains(h.Addr)
	}
	return h.Name != "" && t.name.matches(h.Name)
}

// denies is matches for what is taken away: an IPv6 address that leads to an IPv4
// one is that one, too.
func (t target) denies(h Host) bool {
	if t.matches(h) || h.Name != "" || !t.cidr.IsValid() {
		return t.matches(h)
	}
	v4, is := embedded(h.Addr)
	return is && v4.IsValid() && t.cidr.Contains(v4)
}

func (t target) hasPort(port uint16) bool {
	return port == AnyPort || t.ports == nil || slices.Contains(t.ports, int(port))
}

// covers is hasPort for what is taken away: a name of which only some ports are
// denied still has an address.
func (t target) covers(port uint16) bool {
	return t.ports == nil || port != AnyPort && t.hasPort(port)
}

// Next is the next time at which a rule ends; zero if none does.
func (g *Generation) Next(after time.Time) time.Time {
	var next time.Time
	for _, r := range g.rules {
		if r.ends.After(after) && (next.IsZero() || r.ends.Before(next)) {
			next = r.ends
		}
	}
	return next
}

// Mode is the policy's.
func (g *Generation) Mode() Mode { return g.mode }

// DNS says what look-ups answer.
func (g *Generation) DNS() DNS { return g.dns }

// IPv6 tells whether names have IPv6 addresses inside, too.
func (g *Generation) IPv6() bool { return g.ipv6 }

// Intercepts tells whether any rule looks into TLS.
func (g *Generation) Intercepts() bool {
	return slices.ContainsFunc(g.rules, func(r rule) bool { return r.intercepts() })
}

// Wild tells whether only a wildcard allows a name.
func (g *Generation) Wild(n Name) bool {
	wild := false
	for _, r := range g.rules {
		if r.matches(Host{Name: n}) {
			if r.name.depth == exact {
				return false
			}
			wild = true
		}
	}
	return wild
}
