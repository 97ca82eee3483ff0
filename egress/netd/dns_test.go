package netd

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

func rcode(t *testing.T, m *dns.Msg, want int) {
	t.Helper()
	if m.Rcode != want {
		t.Errorf("%v: got %s, want %s", m.Question, dns.RcodeToString[m.Rcode], dns.RcodeToString[want])
	}
}

func TestNames(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}, egress.Rule{Name: "*.w.example"}))
	first := b.query("allowed.example", dns.TypeA)
	if len(first.Answer) != 1 || !egress.Synthetic.Contains(netip.MustParseAddr(first.Answer[0].(*dns.A).A.String())) {
		t.Fatalf("got %v, want one synthetic address", first)
	}
	if again := b.query("ALLOWED.example", dns.TypeA); again.Answer[0].(*dns.A).A.String() != first.Answer[0].(*dns.A).A.String() {
		t.Error("a name has changed its address")
	}
	// D 5, 6, 33
	for _, name := range []string{"evil.example", "secret.allowed.example", "w.example", "a.b.w.example", "printer.local", "intranet", "x.test"} {
		m := b.query(name, dns.TypeA)
		rcode(t, m, dns.RcodeNameError)
		if o := m.IsEdns0(); o == nil || len(o.Option) != 1 || o.Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeFiltered {
			t.Errorf("%s: the answer does not say that it was filtered", name)
		}
	}
	if e := b.event(egress.EventDNS, egress.ReasonNameNotAllowed); e.Name != "evil.example" || e.Hint == "" {
		t.Errorf("got %+v", e)
	}
	// D 10
	for _, kind := range []uint16{dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeSRV, dns.TypeTXT, dns.TypeMX, dns.TypeANY, dns.TypeNS, dns.TypePTR} {
		if m := b.query("allowed.example", kind); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 {
			t.Errorf("%s: got %v, want no data", dns.TypeToString[kind], m)
		}
	}
	if m := b.query("localhost", dns.TypeA); len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "127.0.0.1" {
		t.Errorf("localhost: %v", m)
	}
	reverse, _ := dns.ReverseAddr(first.Answer[0].(*dns.A).A.String())
	if m := b.query(reverse, dns.TypePTR); len(m.Answer) != 1 || m.Answer[0].(*dns.PTR).Ptr != "allowed.example." {
		t.Errorf("%s: %v", reverse, m)
	}
	rcode(t, b.query("9.9.9.9.in-addr.arpa", dns.TypePTR), dns.RcodeNameError)
	b.untouched()
}

// D 5: whatever is asked of a name is a look-up of that name.
func TestPointerOfAName(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	rcode(t, b.query("data.evil.example", dns.TypePTR), dns.RcodeNameError)
	if e := b.event(egress.EventDNS, egress.ReasonNameNotAllowed); e.Name != "data.evil.example" || e.QType != "PTR" {
		t.Errorf("got %+v", e)
	}
	b.untouched()
}

// D 7
func TestNamesBelowAWildcardAreBounded(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "*.w.example"}, egress.Rule{Name: "exact.w.example"}))
	answered := 0
	for i := range 100 {
		if m := b.query(fmt.Sprintf("%s%03d.w.example", strings.Repeat("a", 60), i), dns.TypeA); len(m.Answer) == 1 {
			answered++
		}
	}
	if answered != wildPerMinute {
		t.Errorf("%d names answered, want %d", answered, wildPerMinute)
	}
	b.event(egress.EventDNS, egress.ReasonLimitNames)
	if m := b.query("exact.w.example", dns.TypeA); len(m.Answer) != 1 {
		t.Error("a name that the policy spells out has no room")
	}
	b.untouched()
}

// D 9: any resolver's address is ours.
func TestOtherResolvers(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	q := new(dns.Msg)
	q.SetQuestion("evil.example.", dns.TypeA)
	raw, _ := q.Pack()
	m := new(dns.Msg)
	if err := m.Unpack(b.rawQuery("9.9.9.9:53", raw)); err != nil {
		t.Fatal(err)
	}
	rcode(t, m, dns.RcodeNameError)
	if e := b.event(egress.EventDNS, egress.ReasonNameNotAllowed); e.Dst.String() != "9.9.9.9:53" {
		t.Errorf("the event is about %s", e.Dst)
	}
	c, err := b.dial("9.9.9.9:53")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tc := &dns.Conn{Conn: c}
	if err := tc.WriteMsg(q); err != nil {
		t.Fatal(err)
	}
	if m, err = tc.ReadMsg(); err != nil {
		t.Fatal(err)
	}
	rcode(t, m, dns.RcodeNameError)
	b.untouched()
}

// TestVersionOfEDNS: a later one than ours is refused with ours (RFC 6891).
func TestVersionOfEDNS(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	q := new(dns.Msg)
	q.SetQuestion("allowed.example.", dns.TypeA)
	q.SetEdns0(1232, false)
	q.IsEdns0().SetVersion(1)
	raw, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b.rawQuery("198.18.0.1:53", raw)); err != nil {
		t.Fatal(err)
	}
	rcode(t, m, dns.RcodeBadVers)
	if o := m.IsEdns0(); o == nil || o.Version() != 0 || len(m.Answer) != 0 {
		t.Errorf("got %v, want no answer and version 0", m)
	}
	b.event(egress.EventDNS, egress.ReasonMalformed)
	b.untouched()
}

// D 11
func TestMalformedQueries(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	pointerLoop := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 0xc0, 12, 0, 1, 0, 1)
	two := new(dns.Msg)
	two.SetQuestion("allowed.example.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	chaos := new(dns.Msg)
	chaos.SetQuestion("allowed.example.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	update := new(dns.Msg)
	update.SetQuestion("allowed.example.", dns.TypeSOA)
	update.Opcode = dns.OpcodeUpdate
	pack := func(m *dns.Msg) []byte { raw, _ := m.Pack(); return raw }
	for name, c := range map[string]struct {
		raw  []byte
		want int
	}{
		"pointer loop": {pointerLoop, dns.RcodeFormatError}, "two questions": {pack(two), dns.RcodeFormatError},
		"class": {pack(chaos), dns.RcodeRefused}, "opcode": {pack(update), dns.RcodeNotImplemented},
	} {
		reply := b.rawQuery("198.18.0.1:53", c.raw)
		if got := int(reply[3] & 15); got != c.want {
			t.Errorf("%s: got %s, want %s", name, dns.RcodeToString[got], dns.RcodeToString[c.want])
		}
	}
	b.event(egress.EventDNS, egress.ReasonMalformed)
	rcode(t, b.query("allowed.example", dns.TypeA), dns.RcodeSuccess)
	b.untouched()
}

// Other names in a query, as the wire can hold them and the policy not.
func TestInvalidNames(t *testing.T) {
	b := newBed(t, egress.Policy{Mode: egress.ModeFull})
	for _, name := range []string{`a\000.allowed.example.`, `b\195\188cher.example.`, `a\.b.example.`, `127.1.`, `x.0x1.`, `a\@b.example.`} {
		q := new(dns.Msg)
		q.SetQuestion(name, dns.TypeA)
		raw, err := q.Pack()
		if err != nil {
			t.Fatal(name, err)
		}
		m := new(dns.Msg)
		if err := m.Unpack(b.rawQuery("198.18.0.1:53", raw)); err != nil {
			t.Fatal(err)
		}
		rcode(t, m, dns.RcodeNameError)
	}
	b.event(egress.EventDNS, egress.ReasonNameInvalid)
	b.untouched()
}

func FuzzAnswer(f *testing.F) {
	q := new(dns.Msg)
	q.SetQuestion("allowed.example.", dns.TypeA)
	raw, _ := q.Pack()
	f.Add(raw)
	q.SetEdns0(4096, true)
	raw, _ = q.Pack()
	f.Add(raw)
	b := newBed(f, restricted(egress.Rule{Name: "allowed.example"}, egress.Rule{Name: "**.w.example"}))
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := b.network.answer(query, netip.AddrPortFrom(Gateway, 53))
		if reply == nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(reply); err != nil && len(reply) != 12 {
			t.Fatalf("the answer cannot be read: %v", err)
		}
		for _, rr := range m.Answer {
			if a, ok := rr.(*dns.A); ok && !a.A.IsLoopback() {
				if n, ok := b.network.names.name(netip.AddrFrom4([4]byte(a.A.To4()))); !ok || n != "allowed.example" && !strings.HasSuffix(string(n), ".w.example") {
					t.Fatalf("an address for %q", n)
				}
			}
		}
		if l, d := b.world.touched(); len(l)+len(d) > 0 {
			t.Fatalf("upstream was touched for %x", query)
		}
	})
}
