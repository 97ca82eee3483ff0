package netd

import (
	"bufio"
	"bytes"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// Bounds on what is remembered of real addresses: a zone could answer with
// others each time it is asked.
const (
	maxFound   = 64    // addresses of one name
	maxBound   = 65536 // addresses in all
	maxShared  = 64    // names of one address: each flow to it is judged for all of them
	maxPointed = 8     // names of an answer to "whose address is this?"
)

// bindings are the real addresses that the program was told of. Whom one was
// told for holds as long as the sandbox lives: a program may keep an address for
// as long as it likes, and where the flow goes is decided by the name.
type bindings struct {
	mu    sync.Mutex
	found map[egress.Name]found
	of    map[netip.Addr][]egress.Name // in the order of the look-ups
}

func newBindings() *bindings {
	return &bindings{found: map[egress.Name]found{}, of: map[netip.Addr][]egress.Name{}}
}

// recent is what a name was found to have, and until when the program may keep
// it: asking again is not to cost a look-up each time.
func (b *bindings) recent(n egress.Name) ([]netip.Addr, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.found[n]
	return f.addrs, f.until
}

// bind remembers what a name has until then, and returns the addresses that the
// program is told: those that few enough names share. false means that it is too
// much.
func (b *bindings) bind(n egress.Name, addrs, fit []netip.Addr, until time.Time) (told []netip.Addr, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.found[n]
	if len(addrs) > maxFound || !known && len(b.found) >= maxNames {
		return nil, false
	}
	b.found[n] = found{addrs, until}
	for _, a := range fit {
		names, old := b.of[a]
		if !slices.Contains(names, n) {
			if len(names) >= maxShared || !old && len(b.of) >= maxBound {
				continue
			}
			b.of[a] = append(names, n)
		}
		told = append(told, a)
	}
	return told, true
}

// names are whom an address was told for.
func (b *bindings) names(a netip.Addr) []egress.Name {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.of[a])
}

// real are the addresses of a name in the world that can be told, if all of them
// may be reached; none means that the name needs one of ours. failed says that
// they could not be looked up.
func (n *Network) real(g *egress.Generation, name egress.Name) (told []netip.Addr, d egress.Decision, failed error) {
	now := time.Now()
	var fresh Answer
	addrs, until := n.bound.recent(name)
	if !now.Before(until) {
		until = now.Add(ttl * time.Second)
		if !n.rate.take() {
			return nil, egress.Decision{Verdict: egress.Refuse, Reason: egress.ReasonLimitRate}, nil
		}
		ctx, cancel := context.WithTimeout(n.ctx, n.times.Dial)
		defer cancel()
		fresh, failed = n.lookup(ctx, name)
		addrs = fresh.Addrs
	}
	d, _ = n.judge.Decide(egress.Flow{Host: egress.Host{Name: name}, Port: egress.AnyPort, Transport: egress.OverDNS, Addrs: addrs, Resolved: true})
	if !d.Allowed() {
		return nil, d, failed
	}
	n.answers.keep(name, fresh, now)
	var fit []netip.Addr
	for _, a := range addrs {
		// what a tunnel of the host's makes up could be one of ours
		if (a.Is4() || g.IPv6() && !a.Is4In6()) && !egress.IsSynthetic(a) {
			fit = append(fit, a)
		}
	}
	told, ok := n.bound.bind(name, addrs, fit, until)
	if !ok {
		d.Verdict, d.Reason = egress.Refuse, egress.ReasonLimitNames
	}
	return told, d, nil
}

// destination is what the program means by an address and a port.
func (n *Network) destination(a netip.Addr, port uint16, t egress.Transport) egress.Flow {
	f := egress.Flow{Host: egress.Host{Addr: a}, Port: port, Transport: t}
	if name, ok := n.names.name(a); ok {
		f.Host = egress.Host{Name: name}
		return f
	}
	f.Names = n.bound.names(a)
	return f
}

// prefer puts the address that the program chose first, if the name still has it.
func prefer(addrs []netip.Addr, chosen netip.Addr) []netip.Addr {
	i := slices.Index(addrs, chosen)
	if i <= 0 {
		return addrs
	}
	return slices.Concat(addrs[i:i+1], addrs[:i], addrs[i+1:])
}

// hostOf reads on until the head of the first request says which host it is for.
// It returns what has been read, to be read again; no host is "".
func (fl *flow) hostOf(c conn, head []byte) ([]byte, string) {
	br := bufio.NewReaderSize(replayed(c, head), maxHead)
	h, err := nextHead(c, br, fl.network.times.Hello, fl.network.times.Head)
	read, _ := br.Peek(br.Buffered())
	if err != nil {
		return bytes.Clone(read), ""
	}
	return bytes.Clone(read), h.host
}
