package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	exampleHint = "for example allow:pypi.org,files.pythonhosted.org"
	ruleHint    = "write [PROTOCOL://]HOST[:PORT]"
)

// ParseShort reads the short form of a policy, the value of --net: "none",
// "restricted", "full", rules "allow:NAME[:PORT][,NAME…]" or ports of this
// machine "host:PORT[,PORT…]", both of which mean restricted. A name may have a
// protocol in front: "http://deb.debian.org". Its errors are of type Problem.
func ParseShort(s string) (Policy, error) {
	if ports, ok := strings.CutPrefix(s, hostPrefix); ok {
		list, err := parseHostPorts(ports)
		if err != nil {
			err = Problem{What: err.Error(), Hint: "for example " + hostPrefix + "5432"}
		}
		return Policy{Mode: ModeRestricted, HostPorts: list}, err
	}
	list, isRules := strings.CutPrefix(s, "allow:")
	if !isRules {
		var m Mode
		if err := m.UnmarshalText([]byte(s)); err != nil {
			bad := Problem{What: fmt.Sprintf("cannot read network %q: it is none, restricted, full, allow:NAME[:PORT],… or host:PORT,…", s), Hint: exampleHint}
			if _, err := ParseShortRule(s); err == nil {
				bad.Hint = "write allow:" + s
			}
			if s == "host" || s == "bridge" { // as containers have it
				bad.Hint = "write full for every public address, or allow:NAME; the host's own network is never shared"
			}
			return Policy{}, bad
		}
		return Policy{Mode: m}, nil
	}
	p := Policy{Mode: ModeRestricted}
	for item := range strings.SplitSeq(list, ",") {
		r, err := ParseShortRule(item)
		if err != nil {
			return Policy{}, err
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// ParseShortRule reads "[PROTOCOL://]NAME[:PORT]", where NAME may be an address.
// Its errors are of type Problem.
func ParseShortRule(s string) (Rule, error) {
	r := Rule{}
	rest := s
	scheme, after, found := strings.Cut(s, "://")
	if found {
		rest = after
		if err := r.Protocol.UnmarshalText([]byte(scheme)); err != nil {
			return r, Problem{What: fmt.Sprintf("cannot allow %q: %v", s, err), Hint: ruleHint}
		}
	}
	if name, port, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, Problem{What: fmt.Sprintf("cannot allow %q: %q is not a port", s, port), Hint: ruleHint}
		}
		rest = name
		r.Ports = []int{int(n)}
		switch {
		case found:
		case n == 80:
			r.Protocol = HTTP
		case n == 22:
			r.Protocol = SSH
		}
	}
	if _, err := netip.ParsePrefix(rest); err == nil {
		return r, Problem{What: fmt.Sprintf("cannot allow %q: it is a range", s), Hint: fmt.Sprintf("write cidr = %q, with ports and protocol, in a policy file", rest)}
	}
	if a, err := netip.ParseAddr(rest); err == nil {
		r.CIDR = netip.PrefixFrom(a, a.BitLen()).String()
		if !found {
			r.Protocol = TCP
		}
	} else {
		r.Name = rest
	}
	c := checker{}
	c.rule("rule", r)
	if len(c.problems) > 0 {
		p := c.problems[0]
		if _, why, ok := strings.Cut(p.What, ": "); ok {
			p.What = fmt.Sprintf("cannot allow %q: %s", s, why)
		}
		return r, p
	}
	return r, nil
}
