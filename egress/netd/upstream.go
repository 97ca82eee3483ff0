package netd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

// system is the way out over the host's network.
type system struct {
	resolvers []netip.AddrPort
	hosts     map[string][]netip.Addr
	ipv6      bool
	turn      atomic.Uint32 // a resolver that did not answer is not asked first again
}

// lookupTry is how long one resolver may take before the next is asked.
const lookupTry = 3 * time.Second

// Lookup asks for every address of a name at once; they are judged together.
// Nothing is kept: who dials again looks up again.
func (s *system) Lookup(ctx context.Context, n egress.Name) ([]netip.Addr, error) {
	if a := s.hosts[string(n)]; a != nil {
		return a, nil
	}
	kinds := []uint16{dns.TypeA}
	if s.ipv6 {
		kinds = append(kinds, dns.TypeAAAA)
	}
	type result struct {
		addrs []netip.Addr
		err   error
	}
	results := make(chan result, len(kinds))
	for _, kind := range kinds {
		go func() {
			addrs, err := s.ask(ctx, n, kind)
			results <- result{addrs, err}
		}()
	}
	var all []netip.Addr
	var errs []error
	for range kinds {
		r := <-results
		all = append(all, r.addrs...)
		errs = append(errs, r.err)
	}
	// half an answer must not hide an address that would deny it
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// ask asks the resolvers in turn for one kind of address.
func (s *system) ask(ctx context.Context, n egress.Name, kind uint16) ([]netip.Addr, error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(string(n)), kind)
	q.SetEdns0(1232, false)
	var last error
	first := s.turn.Load()
	for i := range 2 * len(s.resolvers) {
		at := (first + uint32(i)) % uint32(len(s.resolvers))
		m, err := exchange(ctx, q, s.resolvers[at].String())
		if err != nil {
			last = err
			s.turn.CompareAndSwap(at, at+1)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		switch m.Rcode {
		case dns.RcodeSuccess:
			return addresses(m), nil
		case dns.RcodeNameError:
			return nil, nil
		}
		last = fmt.Errorf("cannot look up %s: %s", n, dns.RcodeToString[m.Rcode])
	}
	return nil, last
}

func exchange(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	c := dns.Client{Timeout: lookupTry, UDPSize: 1232}
	m, _, err := c.ExchangeContext(ctx, q.Copy(), server)
	if err == nil && m.Truncated {
		c.Net = "tcp"
		m, _, err = c.ExchangeContext(ctx, q.Copy(), server)
	}
	return m, err
}

// addresses are all addresses of an answer, whatever names it goes through.
func addresses(m *dns.Msg) []netip.Addr {
	var out []netip.Addr
	for _, r := range m.Answer {
		var ip net.IP
		switch r := r.(type) {
		case *dns.A:
			ip = r.A.To4()
		case *dns.AAAA:
			ip = r.AAAA
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			out = append(out, a)
		}
	}
	return out
}

// Dial connects. An address that the machine got after the start is found by
// asking the kernel which of its own it would speak from.
func (s *system) Dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	probe, err := d.DialContext(ctx, "udp", to.String()) // sends nothing
	if err != nil {
		return nil, err
	}
	from := probe.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if from == to.Addr().Unmap() {
		probe.Close()
		return nil, errOwn
	}
	if network == "udp" {
		return probe, nil
	}
	probe.Close()
	return d.DialContext(ctx, network, to.String())
}
