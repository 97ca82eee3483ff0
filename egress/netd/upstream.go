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
	"golang.org/x/sys/unix"

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
// The host's own names have no time of their own: finding them again is as fast.
func (s *system) Lookup(ctx context.Context, n egress.Name) (Answer, error) {
	if a := s.hosts[string(n)]; a != nil {
		return Answer{Addrs: a}, nil
	}
	if !s.ipv6 {
		return s.ask(ctx, n, dns.TypeA)
	}
	type result struct {
		answer Answer
		err    error
	}
	other := make(chan result, 1)
	go func() {
		a, err := s.ask(ctx, n, dns.TypeAAAA)
		other <- result{a, err}
	}()
	a, err := s.ask(ctx, n, dns.TypeA)
	b := <-other
	// half an answer must not hide an address that would deny it
	if err := errors.Join(err, b.err); err != nil {
		return Answer{}, err
	}
	return Answer{append(a.Addrs, b.answer.Addrs...), min(a.TTL, b.answer.TTL)}, nil
}

// ask asks the resolvers in turn for one kind of address.
func (s *system) ask(ctx context.Context, n egress.Name, kind uint16) (Answer, error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(string(n)), kind)
	q.SetEdns0(1232, false)
	var last error
	first, all := s.turn.Load(), uint32(len(s.resolvers))
	for i := range 2 * all {
		at := (first + i) % all
		m, err := exchange(ctx, q, s.resolvers[at].String())
		if err != nil {
			last = err
			s.turn.CompareAndSwap(at, (at+1)%all)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		switch m.Rcode {
		case dns.RcodeSuccess:
			return addresses(m), nil
		case dns.RcodeNameError:
			return Answer{}, nil
		}
		last = fmt.Errorf("cannot look up %s: %s", n, dns.RcodeToString[m.Rcode])
	}
	return Answer{}, last
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

// addresses are all addresses of a message, whatever names it goes through, for as
// long as all of it may be kept.
func addresses(m *dns.Msg) Answer {
	a := Answer{TTL: keepFor}
	for _, r := range m.Answer {
		a.TTL = min(a.TTL, time.Duration(r.Header().Ttl)*time.Second)
		var ip net.IP
		switch r := r.(type) {
		case *dns.A:
			ip = r.A.To4()
		case *dns.AAAA:
			ip = r.AAAA
		}
		if addr, ok := netip.AddrFromSlice(ip); ok {
			a.Addrs = append(a.Addrs, addr)
		}
	}
	return a
}

// Dial connects. An address that the machine got after the start is found by
// asking the kernel which of its own it would speak from.
func (s *system) Dial(ctx context.Context, network string, to netip.AddrPort, begins func()) (net.Conn, error) {
	var d net.Dialer
	if network == "udp" { // nothing is sent yet
		conn, err := d.DialContext(ctx, network, to.String())
		if err != nil {
			return nil, err
		}
		if conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap() == to.Addr().Unmap() {
			conn.Close()
			return nil, errOwn
		}
		begins()
		return conn, nil
	}
	from, err := speaksFrom(to)
	if err != nil {
		return nil, err
	}
	if from == to.Addr().Unmap() {
		return nil, errOwn
	}
	begins()
	return dialTCP(ctx, to)
}

// Loopback connects to a port of this machine: services listen at either of
// what "localhost" means.
func (s *system) Loopback(ctx context.Context, port uint16) (net.Conn, error) {
	var d net.Dialer
	var errs []error
	for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// speaksFrom is the address that this machine would speak from. Nothing is sent.
func speaksFrom(to netip.AddrPort) (netip.Addr, error) {
	family, at := socketAddress(to)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("cannot make a socket: %w", err)
	}
	defer unix.Close(fd)
	if errno := connect(fd, at); errno != 0 {
		return netip.Addr{}, fmt.Errorf("cannot reach %s: %w", to.Addr(), errno)
	}
	own, err := unix.Getsockname(fd)
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(own.Addr), nil
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(own.Addr).Unmap(), nil
	}
	return netip.Addr{}, fmt.Errorf("cannot tell what address leads to %s: %w", to.Addr(), err)
}
