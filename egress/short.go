package egress

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseShort reads the short form of a policy, the value of --net: "none",
// "restricted", "full", rules "allow:NAME[:PORT][,NAME…]" or ports of this
// machine "host:PORT[,PORT…]", both of which mean restricted. A name may have a protocol in front: "http://deb.debian.org".
func ParseShort(s string) (Policy, error) {
	if ports, ok := strings.CutPrefix(s, hostPrefix); ok {
		list, err := parseHostPorts(ports)
		return Policy{Mode: ModeRestricted, HostPorts: list}, err
	}
	list, isRules := strings.CutPrefix(s, "allow:")
	if !isRules {
		var m Mode
		if err := m.UnmarshalText([]byte(s)); err != nil {
			return Policy{}, fmt.Errorf("cannot read network %q: it is none, restricted, full, allow:NAME[:PORT],… or host:PORT,…", s)
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
func ParseShortRule(s string) (Rule, error) {
	r := Rule{}
	rest := s
	scheme, after, found := strings.Cut(s, "://")
	if found {
		rest = after
		if err := r.Protocol.UnmarshalText([]byte(scheme)); err != nil {
			return r, fmt.Errorf("cannot allow %q: %w", s, err)
		}
	}
	if name, port, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, fmt.Errorf("cannot allow %q: %q is not a port", s, port)
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
		return r, fmt.Errorf("cannot allow %q: it is a range; write cidr = %q, with ports and protocol, in a policy file", s, rest)
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
		return r, fmt.Errorf("cannot allow %q: %s; %s", s, strings.TrimPrefix(c.problems[0].What, "cannot allow "), c.problems[0].Hint)
	}
	return r, nil
}
