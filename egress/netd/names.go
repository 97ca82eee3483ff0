package netd

import (
	"net/netip"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// The addresses that are ours inside.
var (
	// Gateway is the resolver and the proxy.
	Gateway = netip.AddrFrom4([4]byte{198, 18, 0, 1})
	// Inside is the sandbox's own address.
	Inside = netip.AddrFrom4([4]byte{198, 18, 0, 2})
	// gateway6 and inside6 are the same of a sandbox with IPv6.
	gateway6, inside6 = egress.ToIPv6(Gateway), egress.ToIPv6(Inside)
)

// Bounds on names. Those below a wildcard are bounded tightly: labels can
// carry data out to whoever serves the zone, were they looked up.
const (
	wildPerMinute = 64
	wildTotal     = 1024
	maxNames      = 65536
)

// nameTable gives names addresses. A name keeps its address as long as the
// sandbox lives, and no address is given twice.
type nameTable struct {
	mu     sync.Mutex
	byName map[egress.Name]netip.Addr
	byAddr map[netip.Addr]egress.Name
	next   netip.Addr
	wild   int
	minute []time.Time // when the last wild names came
}

func newNameTable() *nameTable {
	return &nameTable{byName: map[egress.Name]netip.Addr{}, byAddr: map[netip.Addr]egress.Name{}, next: netip.AddrFrom4([4]byte{198, 18, 0, 16})}
}

// breadth says whether a name is one that the policy spells out.
type breadth int

const (
	spelledOut breadth = iota
	belowWildcard
)

// address gives a name its address; false means that there are too many.
func (t *nameTable) address(n egress.Name, b breadth, now time.Time) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.byName[n]; ok {
		return a, true
	}
	if len(t.byName) >= maxNames || !egress.Synthetic.Contains(t.next) {
		return netip.Addr{}, false
	}
	if b == belowWildcard {
		for len(t.minute) > 0 && now.Sub(t.minute[0]) > time.Minute {
			t.minute = t.minute[1:]
		}
		if t.wild >= wildTotal || len(t.minute) >= wildPerMinute {
			return netip.Addr{}, false
		}
		t.wild++
		t.minute = append(t.minute, now)
	}
	a := t.next
	t.next = a.Next()
	t.byName[n], t.byAddr[a] = a, n
	return a, true
}

// name is whose address a is, in either form.
func (t *nameTable) name(a netip.Addr) (egress.Name, bool) {
	if v4, ok := egress.FromIPv6(a); ok {
		a = v4
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.byAddr[a]
	return n, ok
}
