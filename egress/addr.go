package egress

import (
	"net/netip"
	"slices"
)

// Class says what kind of address one is. Public is the only one that a name
// may lead to unless a rule opens the private ones.
type Class string

// The classes.
const (
	ClassPublic    Class = "public"
	ClassPrivate   Class = "private"   // RFC 1918, 100.64/10, fc00::/7: a rule may open it
	ClassLoopback  Class = "loopback"  // the host itself
	ClassLinkLocal Class = "linklocal" // this link
	ClassMulticast Class = "multicast" // and broadcast
	ClassReserved  Class = "reserved"  // no host has it: documentation, benchmarks, future use
	ClassMetadata  Class = "metadata"  // what clouds give credentials at
	ClassHost      Class = "host"      // an address of this machine or its resolver
	ClassEmbedded  Class = "embedded"  // IPv6 with an IPv4 inside that is not public
)

// Floor is what of the machine no rule may open.
type Floor struct {
	// Host are the addresses of the machine's interfaces and resolvers.
	Host []netip.Addr `json:"host,omitempty"`
	// Exempt are ranges whose addresses count as public, for a host behind a
	// tunnel that gives out synthetic addresses of its own.
	Exempt []netip.Prefix `json:"exempt,omitempty"`
}

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// metadata is where clouds hand out credentials of the machine. The list is the
// one of the specification.
var metadata = prefixes(
	"169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
	"fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:a9fe:a9fe::1/128", "fd00:100::100:200/128",
)

// ranges are the others, the first that fits counts.
var ranges = []struct {
	class Class
	in    []netip.Prefix
}{
	{ClassLoopback, prefixes("127.0.0.0/8", "::1/128")},
	{ClassLinkLocal, prefixes("169.254.0.0/16", "fe80::/10", "fec0::/10")},
	{ClassMulticast, prefixes("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")},
	{ClassReserved, prefixes("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
		"198.18.0.0/15", "240.0.0.0/4", "::/128", "2001::/23", "2001:db8::/32", "3fff::/20", "100::/64", "5f00::/16")},
	{ClassPrivate, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")},
}

// globalUnicast is the only part of IPv6 that is given out; the rest is denied.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// Classify says what an address is. IPv4 inside IPv6 is judged as IPv4; any of
// it that is not public is ClassEmbedded, whatever the rules say.
func (f Floor) Classify(a netip.Addr) Class {
	if a.Is4In6() || a.Is6() {
		v4, is := embedded(a)
		if is {
			if v4.IsValid() && f.Classify(v4) == ClassPublic && !f.isHost(a) {
				return ClassPublic
			}
			return ClassEmbedded
		}
	}
	if a.Zone() != "" || !a.IsValid() {
		return ClassReserved
	}
	for _, p := range metadata {
		if p.Contains(a) {
			return ClassMetadata
		}
	}
	if f.isHost(a) {
		return ClassHost
	}
	for _, p := range f.Exempt {
		if p.Contains(a) {
			return ClassPublic
		}
	}
	for _, r := range ranges {
		for _, p := range r.in {
			if p.Contains(a) {
				return r.class
			}
		}
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return ClassReserved
	}
	return ClassPublic
}

func (f Floor) isHost(a netip.Addr) bool { return slices.Contains(f.Host, a) }

var (
	compatible  = netip.MustParsePrefix("::/96")
	mapped      = netip.MustParsePrefix("::ffff:0:0/96")
	translated  = netip.MustParsePrefix("::ffff:0:0:0/96")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local  = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour   = netip.MustParsePrefix("2002::/16")
	teredo      = netip.MustParsePrefix("2001::/32")
	unspecified = netip.IPv6Unspecified()
	loopback6   = netip.IPv6Loopback()
)

// embedded is the IPv4 address that a transition address of IPv6 leads to. An
// invalid one with true means that it cannot be told which.
func embedded(a netip.Addr) (v4 netip.Addr, is bool) {
	a = a.WithZone("")
	b := a.As16()
	low := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case a == unspecified || a == loopback6:
		return netip.Addr{}, false
	case mapped.Contains(a) || a.Is4In6() || compatible.Contains(a) || translated.Contains(a) || nat64.Contains(a):
		return low, true
	case nat64Local.Contains(a):
		return netip.Addr{}, true // the operator's own layout (RFC 8215)
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a):
		return netip.Addr{}, true // server and client, obscured
	case b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return low, true // ISATAP
	}
	return netip.Addr{}, false
}

// verdictOf judges all addresses of an answer together: one that is denied
// denies all, so that an answer cannot smuggle it in beside a good one.
func (f Floor) verdictOf(addrs []netip.Addr, private []netip.Prefix) (Reason, Class) {
	var bad Class
	good := 0
	for _, a := range addrs {
		c := f.Classify(a)
		if c == ClassPublic || c == ClassPrivate && contains(private, a) {
			good++
		} else if bad == "" {
			bad = c
		}
	}
	switch {
	case bad == "" && good > 0:
		return "", ClassPublic
	case bad == "":
		return ReasonUnresolved, ""
	case good > 0:
		return ReasonAddrMixed, bad
	}
	return ReasonAddrDenied, bad
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}
