package netd

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

// ttl is how long a program may keep an answer, in seconds; noTTL a refusal.
// Neither matters for safety: flows are judged when they begin.
const (
	ttl   = 60
	noTTL = 10
)

// dnsIdle is how long a connection that asks is kept, askIdle a socket: one that
// asks again later is taken anew.
const (
	dnsIdle = 10 * time.Second
	askIdle = 300 * time.Millisecond
)

// dnsOverUDP answers one socket's queries, whatever address they were sent to:
// the answers come from there.
func (n *Network) dnsOverUDP(c net.Conn, dst netip.AddrPort) {
	defer c.Close()
	defer context.AfterFunc(n.ctx, func() { c.Close() })()
	var b [dns.DefaultMsgSize]byte
	for {
		_ = c.SetReadDeadline(time.Now().Add(askIdle))
		size, err := c.Read(b[:])
		if err != nil || n.ctx.Err() != nil {
			return
		}
		if reply := n.answer(b[:size], dst); reply != nil {
			if _, err := c.Write(reply); err != nil {
				return
			}
		}
	}
}

// dnsOverTCP is the same with a length before each message.
func (n *Network) dnsOverTCP(c net.Conn, dst netip.AddrPort) {
	for {
		_ = c.SetReadDeadline(time.Now().Add(dnsIdle))
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		reply := n.answer(b, dst)
		if reply == nil {
			return
		}
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(reply)), uint16(len(reply)))
		if _, err := c.Write(append(out, reply...)); err != nil {
			return
		}
	}
}

// answer answers one query; nil means that it is not worth one. Nothing is asked
// upstream for it.
func (n *Network) answer(query []byte, dst netip.AddrPort) []byte {
	var q dns.Msg
	if err := q.Unpack(query); err != nil {
		n.events.deny(egress.Event{Type: egress.EventDNS, Via: egress.ViaDNS, Dst: dst, Port: dnsPort, Reason: egress.ReasonMalformed})
		return formatError(query)
	}
	if q.Response {
		return nil
	}
	m := new(dns.Msg)
	m.SetReply(&q)
	m.RecursionAvailable = true
	m.Compress = true
	if o := q.IsEdns0(); o != nil {
		m.SetEdns0(1232, false)
	}
	n.reply(m, &q, dst)
	b, err := m.Pack()
	if err != nil {
		return formatError(query)
	}
	return b
}

// formatError answers what cannot be read: its id, and FORMERR.
func formatError(query []byte) []byte {
	if len(query) < 12 {
		return nil
	}
	b := make([]byte, 12)
	copy(b, query[:2])
	b[2], b[3] = 0x80, dns.RcodeFormatError
	return b
}

// reply fills in the answer.
func (n *Network) reply(m, q *dns.Msg, dst netip.AddrPort) {
	e := egress.Event{Type: egress.EventDNS, Via: egress.ViaDNS, Dst: dst, Port: 0}
	bad := func(code int) {
		m.Rcode = code
		e.Reason = egress.ReasonMalformed
		n.events.deny(e)
	}
	switch {
	case q.Opcode != dns.OpcodeQuery:
		bad(dns.RcodeNotImplemented)
		return
	case len(q.Question) != 1 || len(q.Answer) > 0 || len(q.Ns) > 0:
		bad(dns.RcodeFormatError)
		return
	case q.Question[0].Qclass != dns.ClassINET:
		bad(dns.RcodeRefused)
		return
	}
	if o := q.IsEdns0(); o != nil && o.Version() != 0 {
		bad(dns.RcodeBadVers) // RFC 6891, 6.1.3: with the version that we have
		return
	}
	question := q.Question[0]
	e.QType = dns.TypeToString[question.Qtype]
	e.Name = question.Name
	name, err := egress.CanonicalName(question.Name)
	if err != nil {
		n.deniedName(m, e, egress.Decision{Reason: egress.ReasonNameInvalid})
		return
	}
	e.Name = string(name)
	switch {
	case name.IsLocalhost():
		n.localhost(m, question)
		return
	case question.Qtype == dns.TypePTR:
		// one of any other name is a look-up of that, and is judged and recorded
		if a, ok := reversed(question.Name); ok {
			n.pointer(m, question, a)
			return
		}
	}
	n.lookUp(m, question, e, name)
}

// lookUp answers a question about a name. Everything but addresses has no data:
// no key to hide the name with, no hint at QUIC, no other host to go to.
func (n *Network) lookUp(m *dns.Msg, q dns.Question, e egress.Event, name egress.Name) {
	d, gen := n.judge.Decide(egress.Flow{Host: egress.Host{Name: name}, Port: egress.AnyPort, Transport: egress.OverDNS})
	e.Gen = gen
	g := n.judge.Current()
	if g == nil || !d.Allowed() {
		n.deniedName(m, e, d)
		return
	}
	b := spelledOut
	if g.Wild(name) {
		b = belowWildcard
	}
	own, ok := n.names.address(name, b, time.Now())
	if !ok {
		n.deniedName(m, e, egress.Decision{Reason: egress.ReasonLimitNames, Rule: d.Rule})
		return
	}
	addrs := []netip.Addr{own}
	if g.IPv6() {
		addrs = append(addrs, egress.ToIPv6(own))
	}
	asksAddress := q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA && g.IPv6()
	if g.DNS() == egress.DNSReal && asksAddress && name != egress.HostName {
		real, d, err := n.real(g, name)
		if !d.Allowed() {
			n.deniedName(m, e, d)
			if err != nil { // somebody may know it later
				m.Rcode = dns.RcodeServerFailure
			}
			return
		}
		if len(real) > 0 {
			addrs = real
		}
	}
	for _, a := range addrs {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			m.Answer = append(m.Answer, &dns.A{Hdr: rrHeader(q.Name, dns.TypeA, ttl), A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && a.Is6():
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: rrHeader(q.Name, dns.TypeAAAA, ttl), AAAA: a.AsSlice()})
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{startOfAuthority(q.Name)}
	} else if g.DNS() == egress.DNSReal {
		e.Addrs = addrs
	}
	e.Verdict, e.Rule = egress.Allow, d.Rule
	n.events.note(e)
}

// deniedName answers NXDOMAIN, and says why to who asks in EDNS.
func (n *Network) deniedName(m *dns.Msg, e egress.Event, d egress.Decision) {
	m.Rcode = dns.RcodeNameError
	m.Ns = []dns.RR{startOfAuthority(e.Name)}
	if o := m.IsEdns0(); o != nil {
		o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeFiltered, ExtraText: d.Reason.Text()})
	}
	e.Reason, e.Rule, e.Hint, e.Class = d.Reason, d.Rule, d.Hint, d.Class
	n.events.deny(e)
}

// localhost is the sandbox itself.
func (n *Network) localhost(m *dns.Msg, q dns.Question) {
	switch q.Qtype {
	case dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: rrHeader(q.Name, dns.TypeA, ttl), A: net.IPv4(127, 0, 0, 1)}}
	case dns.TypeAAAA:
		m.Answer = []dns.RR{&dns.AAAA{Hdr: rrHeader(q.Name, dns.TypeAAAA, ttl), AAAA: net.IPv6loopback}}
	}
}

// pointer names an address that was given out.
func (n *Network) pointer(m *dns.Msg, q dns.Question, a netip.Addr) {
	names := n.bound.names(a)
	if name, ok := n.names.name(a); ok {
		names = []egress.Name{name}
	}
	for _, name := range names[:min(len(names), maxPointed)] {
		m.Answer = append(m.Answer, &dns.PTR{Hdr: rrHeader(q.Name, dns.TypePTR, ttl), Ptr: dns.Fqdn(string(name))})
	}
	if len(names) > 0 {
		return
	}
	m.Rcode = dns.RcodeNameError
	m.Ns = []dns.RR{startOfAuthority(q.Name)}
}

// reversed reads "4.3.2.1.in-addr.arpa." and the 32 digits of ip6.arpa.
func reversed(name string) (netip.Addr, bool) {
	labels := dns.SplitDomainName(dns.CanonicalName(name))
	slices.Reverse(labels)
	if len(labels) < 2 || labels[0] != "arpa" {
		return netip.Addr{}, false
	}
	zone, labels := labels[1], labels[2:]
	var text string
	switch {
	case zone == "in-addr" && len(labels) == 4:
		text = strings.Join(labels, ".")
	case zone == "ip6" && len(labels) == 32:
		for group := range slices.Chunk(labels, 4) {
			text += ":" + strings.Join(group, "")
		}
		text = text[1:]
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil
}

func rrHeader(name string, t uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: t, Class: dns.ClassINET, Ttl: ttl}
}

// startOfAuthority carries how long a negative answer may be kept (RFC 2308).
func startOfAuthority(name string) dns.RR {
	return &dns.SOA{Hdr: rrHeader(".", dns.TypeSOA, noTTL), Ns: "isolate.invalid.", Mbox: "isolate.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: noTTL}
}
