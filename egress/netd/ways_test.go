package netd

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

// outcome is what became of an attempt: allowed, or why not.
type outcome struct {
	reason egress.Reason
	class  egress.Class
	rule   string
	// atLookup says that the name got no address: the port was not known yet.
	atLookup bool
}

// as tells whether another way ended in the same. What a look-up refuses the
// others refuse, too, but they know the port and may have another reason.
func (o outcome) as(other outcome) bool {
	return other.reason != noEvent && (o == other || o.atLookup && other.reason != "")
}

const noEvent egress.Reason = "nothing happened"

// last is the outcome that the log has of an attempt that began at event n.
func (b *bed) last(n int) outcome {
	before := map[uint64]bool{} // flows of other attempts, which may still end
	for _, e := range b.log.all()[:n] {
		before[e.Flow] = e.Flow != 0
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, e := range b.log.all()[n:] {
			switch {
			case before[e.Flow]:
			case e.Type == egress.EventOpen:
				return outcome{rule: e.Rule}
			case e.Verdict == egress.Refuse:
				return outcome{e.Reason, e.Class, e.Rule, e.Type == egress.EventDNS}
			}
		}
	}
	return outcome{reason: noEvent}
}

// randomPolicy is a policy of few hosts and every kind of rule.
func randomPolicy(r *rand.Rand) egress.Policy {
	p := egress.Policy{Mode: egress.ModeRestricted + egress.Mode(r.IntN(8)/7)}
	for range r.IntN(4) {
		rule := egress.Rule{Name: []string{"a.example", "a.example", "*.w.example", "**.w.example"}[r.IntN(4)], Protocol: egress.Protocol(r.IntN(6)), Ports: []int{443, 80}[r.IntN(2):][:1]}
		switch r.IntN(6) {
		case 0:
			rule.For = time.Nanosecond // over
		case 1:
			rule.Private = []string{"10.1.0.0/16"}
		case 2:
			rule.CIDR, rule.Name, rule.Protocol = "9.9.9.0/24", "", egress.TCP
		}
		p.Rules = append(p.Rules, rule)
	}
	switch r.IntN(5) {
	case 0:
		p.Deny = []egress.Deny{{Name: "a.example", Ports: []int{80}}}
	case 1:
		p.Deny = []egress.Deny{{Name: "**.w.example"}}
	case 2:
		p.HostPorts = []int{80}
	case 3:
		p.HostPorts, p.Deny = []int{80, 443}, []egress.Deny{{Name: string(egress.HostName), Ports: []int{443}}}
	}
	return p
}

// D 78: whatever the policy, a program that goes through the device gets the
// verdict that one gets which uses the proxy.
func TestSameVerdictEveryWay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	hosts := []string{"x.w.example", "x.y.w.example", "w.example", "printer.local", "9.9.9.9", "9.9.8.8", "10.1.2.3", "169.254.169.254", "198.18.77.1", string(egress.HostName)}
	answers := []string{"9.9.9.9", "9.9.9.9", "9.9.9.9", "10.1.2.3", "10.2.2.3", "9.9.9.9 10.2.2.3", "127.0.0.1", ""}
	echoes := listen(t, echo)
	for round := range 400 {
		policy := randomPolicy(r)
		// an address that is allowed as such is, whatever its names are
		if policy.Mode == egress.ModeRestricted && !slices.ContainsFunc(policy.Rules, func(r egress.Rule) bool { return r.CIDR != "" }) {
			policy.DNS = egress.DNS(r.IntN(2))
		}
		host, port, answer := "a.example", []int{443, 80, 443, 80, 25}[r.IntN(5)], answers[r.IntN(len(answers))]
		if r.IntN(2) == 0 {
			host = hosts[r.IntN(len(hosts))]
		}
		first := []string{string(recordHello(t, "a.example")), string(recordHello(t, "x.w.example")), "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "\x00"}[r.IntN(4)]
		policy.IPv6 = r.IntN(2) == 0
		b := newBed(t, policy, func(o *Options) { o.IPv6 = policy.IPv6 })
		for _, h := range append(hosts, "a.example") {
			b.world.name(h, strings.Fields(answer)...)
		}
		for _, a := range []string{"9.9.9.9", "9.9.8.8", "10.1.2.3", "10.2.2.3", "127.0.0.1"} {
			b.world.server(net.JoinHostPort(a, fmt.Sprint(port)), echoes)
		}
		direct := b.attempt(len(b.log.all()), first, func() (net.Conn, error) { return b.straight(host, port) })
		if policy.IPv6 && policy.DNS == egress.DNSSynthetic {
			over6 := b.attempt(len(b.log.all()), first, func() (net.Conn, error) { return b.straight6(host, port) })
			if direct != over6 && host[0] != '1' && host[0] != '9' { // an address of IPv4 has no other
				t.Fatalf("round %d, %s:%d: over IPv4 %+v, over IPv6 %+v\n%+v", round, host, port, direct, over6, policy)
			}
		}
		for way, dial := range map[string]func(string, int) (net.Conn, error){"connect": b.connect, "socks": b.socks} {
			other := b.attempt(len(b.log.all()), first, func() (net.Conn, error) { return dial(host, port) })
			if !direct.as(other) {
				t.Fatalf("round %d, %s:%d that leads to %q, first bytes %.5q: through the device %+v, by %s %+v\n%+v", round, host, port, answer, first, direct, way, other, policy)
			}
		}
		b.network.Close()
	}
}

// The same for the address of several names, of which none, some or all may be
// meant: by a proxy it is judged as by the device.
func TestSameVerdictForSharedAddresses(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	names := []string{"a.example", "x.w.example", "x.y.w.example"}
	echoes := listen(t, echo)
	for round := range 200 {
		policy := randomPolicy(r)
		policy.DNS = egress.DNSReal
		port := []int{443, 80, 22}[r.IntN(3)]
		first := []string{string(recordHello(t, "a.example")), string(recordHello(t, "x.w.example")), "GET / HTTP/1.1\r\nHost: x.w.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "\x00"}[r.IntN(5)]
		b := newBed(t, policy)
		for _, n := range names[:1+r.IntN(3)] {
			b.world.name(n, "9.9.9.9")
			b.query(n, dns.TypeA)
		}
		b.world.server(net.JoinHostPort("9.9.9.9", fmt.Sprint(port)), echoes)
		direct := b.attempt(len(b.log.all()), first, func() (net.Conn, error) { return b.straight("9.9.9.9", port) })
		for way, dial := range map[string]func(string, int) (net.Conn, error){"connect": b.connect, "socks": b.socks} {
			other := b.attempt(len(b.log.all()), first, func() (net.Conn, error) { return dial("9.9.9.9", port) })
			if direct != other {
				t.Fatalf("round %d, port %d, first bytes %.5q: through the device %+v, by %s %+v\n%+v", round, port, first, direct, way, other, policy)
			}
		}
		b.network.Close()
	}
}

// attempt makes an attempt that began at event n and says what became of it.
func (b *bed) attempt(n int, first string, dial func() (net.Conn, error)) outcome {
	c, err := dial()
	if err == nil {
		defer c.Close()
		_, _ = io.WriteString(c, first)
	}
	return b.last(n)
}

// straight is the way of a program that knows of no proxy.
func (b *bed) straight(host string, port int) (net.Conn, error) {
	h, err := egress.ParseHost(host)
	if err != nil {
		return nil, err
	}
	if h.Name == "" {
		return b.dial(net.JoinHostPort(host, fmt.Sprint(port)))
	}
	m := b.query(host, dns.TypeA)
	if len(m.Answer) == 0 {
		return nil, fmt.Errorf("no such name")
	}
	return b.dial(net.JoinHostPort(addressOf(b.t, m), fmt.Sprint(port)))
}

// straight6 is the same over IPv6.
func (b *bed) straight6(host string, port int) (net.Conn, error) {
	m := b.query(host, dns.TypeAAAA)
	if len(m.Answer) == 0 {
		return nil, fmt.Errorf("no such name")
	}
	return b.dial(net.JoinHostPort(answers(m)[0], fmt.Sprint(port)))
}

// connect is the way through the HTTP proxy.
func (b *bed) connect(host string, port int) (net.Conn, error) {
	c, err := b.dial("198.18.0.1:3128")
	if err != nil {
		return nil, err
	}
	to := net.JoinHostPort(host, fmt.Sprint(port))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		return nil, err
	}
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	head := make([]byte, len(established))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != established {
		c.Close()
		return nil, fmt.Errorf("%.12s: %s", head, http.StatusText(http.StatusForbidden))
	}
	return c, nil
}

// socks is the way through the SOCKS proxy, by name as with --socks5-hostname.
func (b *bed) socks(host string, port int) (net.Conn, error) {
	request := []byte{socksVersion, socksConnect, 0, socksName, byte(len(host))}
	c, code, err := b.ask(binary.BigEndian.AppendUint16(append(request, host...), uint16(port)))
	if err == nil && code != socksGranted {
		c.Close()
		err = fmt.Errorf("code %d", code)
	}
	return c, err
}

// ask greets the SOCKS proxy and sends a request.
func (b *bed) ask(request []byte) (c net.Conn, code byte, err error) {
	c, err = b.dial("198.18.0.1:1080")
	if err != nil {
		return nil, 0, err
	}
	b.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = c.Write(append([]byte{socksVersion, 2, 2, socksNoAuth}, request...))
	reply := make([]byte, 2+10)
	if err == nil {
		_, err = io.ReadFull(c, reply)
	}
	if err == nil && (reply[0] != socksVersion || reply[1] != socksNoAuth || reply[2] != socksVersion) {
		err = fmt.Errorf("it says %x", reply)
	}
	return c, reply[3], err
}
