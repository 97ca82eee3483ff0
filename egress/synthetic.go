package egress

import "net/netip"

// Synthetic are the ranges of the addresses that names have inside. Both are for
// benchmarks of network devices (RFC 2544 and 5180), so nothing public is in them.
var (
	Synthetic  = netip.MustParsePrefix("198.18.0.0/15")
	Synthetic6 = netip.MustParsePrefix("2001:2::/48")
)

// IsSynthetic tells whether an address could be one that a name has inside, also
// as IPv6 writes one of IPv4.
func IsSynthetic(a netip.Addr) bool {
	return Synthetic.Contains(a.Unmap()) || Synthetic6.Contains(a)
}

// ToIPv6 is the IPv6 address beside a synthetic IPv4 one: the same in its last
// four bytes.
func ToIPv6(a netip.Addr) netip.Addr {
	b, v4 := Synthetic6.Addr().As16(), a.As4()
	copy(b[12:], v4[:])
	return netip.AddrFrom16(b)
}

// FromIPv6 is the synthetic IPv4 address beside an IPv6 one; false if there is
// none.
func FromIPv6(a netip.Addr) (netip.Addr, bool) {
	if !Synthetic6.Contains(a) {
		return netip.Addr{}, false
	}
	b := a.As16()
	v4 := netip.AddrFrom4([4]byte(b[12:]))
	return v4, Synthetic.Contains(v4) && ToIPv6(v4) == a
}
