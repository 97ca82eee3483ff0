package netd

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

func real(r ...egress.Rule) egress.Policy {
	return egress.Policy{Mode: egress.ModeRestricted, DNS: egress.DNSReal, Rules: r}
}

// answers are the addresses of an answer.
func answers(m *dns.Msg) []string {
	var out []string
	for _, r := range m.Answer {
		switch r := r.(type) {
		case *dns.A:
			out = append(out, r.A.String())
		case *dns.AAAA:
			out = append(out, r.AAAA.String())
		}
	}
	return out
}

// A name has its real addresses, asked for once, and a flow to one of them is
// dialled there.
func TestRealAddresses(t *testing.T) {
	b := newBed(t, real(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}}))
	b.world.name("a.example", "9.9.9.8", "9.9.9.9")
	echoes := listen(t, echo)
	b.world.server("9.9.9.8:7", echoes)
	b.world.server("9.9.9.9:7", echoes)
	for range 3 {
		if got := answers(b.query("a.example", dns.TypeA)); !slices.Equal(got, []string{"9.9.9.8", "9.9.9.9"}) {
			t.Fatalf("got %v", got)
		}
	}
	if got := b.query("a.example", dns.TypeAAAA); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 0 {
		t.Errorf("got %v", got)
	}
	if l, _ := b.world.touched(); len(l) != 1 {
		t.Errorf("%d look-ups for one name in its time", len(l))
	}
	c, err := b.dial("9.9.9.9:7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	open := b.event(egress.EventOpen, "")
	if open.Name != "a.example" || open.Dial.String() != "9.9.9.9:7" || open.Dst.String() != "9.9.9.9:7" {
		t.Errorf("got %+v", open)
	}
	if asked := b.event(egress.EventDNS, ""); len(asked.Addrs) != 2 {
		t.Errorf("the record has no addresses: %+v", asked)
	}
	reverse, _ := dns.ReverseAddr("9.9.9.9")
	if m := b.query(reverse, dns.TypePTR); len(m.Answer) != 1 || m.Answer[0].(*dns.PTR).Ptr != "a.example." {
		t.Errorf("got %v", m)
	}
}

// Nobody is told an address that may not be reached, and nothing but allowed
// names is asked upstream.
func TestRealAddressesAreVetted(t *testing.T) {
	for answer, want := range map[string]egress.Reason{
		"127.0.0.1": egress.ReasonAddrDenied, "169.254.169.254": egress.ReasonAddrDenied, "10.2.0.1": egress.ReasonAddrDenied,
		"9.9.9.9 10.2.0.1": egress.ReasonAddrMixed, "9.9.9.9 ::ffff:127.0.0.1": egress.ReasonAddrMixed, "": egress.ReasonUnresolved, "64:ff9b::7f00:1": egress.ReasonAddrDenied,
	} {
		b := newBed(t, real(egress.Rule{Name: "a.example"}))
		b.world.name("a.example", strings.Fields(answer)...)
		rcode(t, b.query("a.example", dns.TypeA), dns.RcodeNameError)
		b.event(egress.EventDNS, want)
		rcode(t, b.query("b.example", dns.TypeA), dns.RcodeNameError)
		rcode(t, b.query("b.a.example", dns.TypeA), dns.RcodeNameError)
		for _, n := range func() []egress.Name { l, _ := b.world.touched(); return l }() {
			if n != "a.example" {
				t.Errorf("%s was looked up", n)
			}
		}
		b.network.Close()
	}
	b := newBed(t, real(egress.Rule{Name: "a.example"}, egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}, Private: []string{"10.2.0.0/16"}}))
	b.world.name("a.example", "10.2.0.1")
	if got := answers(b.query("a.example", dns.TypeA)); !slices.Equal(got, []string{"10.2.0.1"}) {
		t.Errorf("a private address that a rule opens: got %v", got)
	}
	c, err := b.dial("10.2.0.1:443") // that rule does not
	if err == nil {
		_, _ = c.Write(recordHello(t, "a.example"))
	}
	refusedBy(t, b, &alertIsError{c}, err, egress.ReasonAddrDenied)
}

// What cannot be shown gets an address of ours, as without real addresses.
func TestRealAddressThatCannotBeShown(t *testing.T) {
	for _, answer := range []string{"2620:fe::fe", "198.18.3.4"} {
		p := real(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}})
		p.Exempt = []string{"198.18.0.0/15"}
		b := newBed(t, p)
		b.world.name("a.example", answer)
		b.world.server(netip.AddrPortFrom(netip.MustParseAddr(answer), 7).String(), listen(t, echo))
		got := answers(b.query("a.example", dns.TypeA))
		if len(got) != 1 || !egress.Synthetic.Contains(netip.MustParseAddr(got[0])) || got[0] == answer {
			t.Fatalf("%s: got %v", answer, got)
		}
		c, err := b.dial(got[0] + ":7")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if e := b.event(egress.EventOpen, ""); e.Dial.Addr().String() != answer {
			t.Errorf("got %+v", e)
		}
		b.network.Close()
	}
}

// The address of several names: a flow is to the one that its first bytes name,
// and to none if they name another.
func TestSharedAddress(t *testing.T) {
	web := func(n string) egress.Rule { return egress.Rule{Name: n} }
	on := func(n string, p egress.Protocol, port int) egress.Rule {
		return egress.Rule{Name: n, Protocol: p, Ports: []int{port}}
	}
	for _, c := range []struct {
		name   string
		rules  []egress.Rule
		port   int
		first  string
		want   egress.Reason
		leads  string // the name of the flow
		silent bool   // refused before a byte
	}{
		{"first of two", []egress.Rule{web("a.example"), web("b.example")}, 443, string(recordHello(t, "a.example")), "", "a.example", false},
		{"second of two", []egress.Rule{web("a.example"), web("b.example")}, 443, string(recordHello(t, "b.example")), "", "b.example", false},
		{"a third", []egress.Rule{web("a.example"), web("b.example"), web("c.example")}, 443, string(recordHello(t, "c.example")), egress.ReasonSNIMismatch, "", false},
		{"one that is not allowed", []egress.Rule{web("a.example"), web("b.example")}, 443, string(recordHello(t, "evil.example")), egress.ReasonSNIMismatch, "", false},
		{"no name", []egress.Rule{web("a.example"), web("b.example")}, 443, string(recordHello(t, "")), egress.ReasonSNIMissing, "", false},
		{"hidden name", []egress.Rule{web("a.example"), web("b.example")}, 443, string(withExtension(recordHello(t, "b.example"), encryptedHello)), egress.ReasonECH, "", false},
		{"other bytes", []egress.Rule{web("a.example"), web("b.example")}, 443, "\x00", egress.ReasonProtoNotAllowed, "", false},
		{"plain", []egress.Rule{on("a.example", egress.HTTP, 80), on("b.example", egress.HTTP, 80)}, 80, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "", "b.example", false},
		{"plain, of nobody", []egress.Rule{on("a.example", egress.HTTP, 80), on("b.example", egress.HTTP, 80)}, 80, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", egress.ReasonHostMismatch, "", false},
		{"plain, by address", []egress.Rule{on("a.example", egress.HTTP, 80), on("b.example", egress.HTTP, 80)}, 80, "GET / HTTP/1.1\r\nHost: 9.9.9.9\r\n\r\n", egress.ReasonHostMismatch, "", false},
		{"nothing is said", []egress.Rule{on("a.example", egress.TCP, 7), on("b.example", egress.SSH, 7)}, 7, "", egress.ReasonAddrShared, "", true},
		{"one may use the port", []egress.Rule{on("a.example", egress.TCP, 7), web("b.example")}, 7, "", "", "a.example", false},
		{"nobody may use the port", []egress.Rule{web("a.example"), web("b.example")}, 7, "", egress.ReasonPortNotAllowed, "", true},
		{"one of them says whom it is for", []egress.Rule{on("a.example", egress.TCP, 443), web("b.example")}, 443, string(recordHello(t, "b.example")), "", "b.example", false},
		{"one of them need not say it", []egress.Rule{on("a.example", egress.TCP, 443), web("b.example")}, 443, string(recordHello(t, "a.example")), "", "a.example", false},
		{"and does not", []egress.Rule{on("a.example", egress.TCP, 443), web("b.example")}, 443, "\x00", egress.ReasonProtoNotAllowed, "", false},
		{"the address itself is allowed", []egress.Rule{on("a.example", egress.TCP, 7), on("b.example", egress.TCP, 7), {CIDR: "9.9.9.0/24", Protocol: egress.TCP, Ports: []int{7}}}, 7, "", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, real(c.rules...))
			server := listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
			b.world.server(fmt.Sprintf("9.9.9.9:%d", c.port), server)
			for _, n := range []string{"a.example", "b.example"} {
				b.world.name(n, "9.9.9.9")
				b.query(n, dns.TypeA)
			}
			b.world.name("c.example", "9.9.9.7")
			n := len(b.log.all())
			conn, err := b.dial(fmt.Sprintf("9.9.9.9:%d", c.port))
			if (err != nil) != c.silent {
				t.Fatalf("dial: %v", err)
			}
			if err == nil {
				defer conn.Close()
				_, _ = io.WriteString(conn, c.first)
			}
			if c.want == egress.ReasonHostMismatch {
				b.event(egress.EventRequest, c.want)
				return
			}
			if got := b.last(n); got.reason != c.want {
				t.Fatalf("got %+v, want %q", got, c.want)
			}
			if c.want == egress.ReasonAddrShared {
				if e := b.event(egress.EventDeny, c.want); !strings.Contains(e.Hint, "--net-dns synthetic") || e.Dst.String() != "9.9.9.9:7" {
					t.Errorf("got %+v", e)
				}
			}
			if c.want == "" {
				if e := b.event(egress.EventOpen, ""); e.Name != c.leads {
					t.Errorf("it went to %q, want %q", e.Name, c.leads)
				}
			} else if _, d := b.world.touched(); len(d) > 0 {
				t.Errorf("dialled %v", d)
			}
		})
	}
}

// Rebinding: an address is only a word for a name. What the name has when the
// flow begins is judged, and nothing else is dialled.
func TestRealAddressThatChanges(t *testing.T) {
	b := newBed(t, real(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}}, egress.Rule{Name: "evil.example", Protocol: egress.TCP, Ports: []int{22}}))
	b.world.server("9.9.9.8:7", listen(t, echo))
	b.world.name("a.example", "9.9.9.9")
	b.query("a.example", dns.TypeA)
	b.world.name("a.example", "9.9.9.8") // moved: still reached (D 45)
	c, err := b.dial("9.9.9.9:7")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if e := b.event(egress.EventOpen, ""); e.Dial.String() != "9.9.9.8:7" {
		t.Errorf("got %+v", e)
	}
	for _, bad := range []string{"127.0.0.1", "10.0.0.5", "169.254.169.254"} { // D 42
		b.world.name("a.example", bad)
		c, err := b.dial("9.9.9.9:7")
		refusedBy(t, b, c, err, egress.ReasonAddrDenied)
	}
	// a zone that points at another's address gets nothing of it
	b.world.name("a.example", "9.9.9.9")
	b.world.name("evil.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	b.query("evil.example", dns.TypeA)
	if c, err = b.dial("9.9.9.9:7"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c, err = b.dial("9.9.9.9:23")
	refusedBy(t, b, c, err, egress.ReasonPortNotAllowed)
	// an address that nobody was told for
	c, err = b.dial("9.9.9.7:7")
	refusedBy(t, b, c, err, egress.ReasonIPLiteral)
	_, dials := b.world.touched()
	for _, d := range dials {
		if !slices.Contains([]string{"9.9.9.8:7", "9.9.9.9:7"}, d.String()) {
			t.Errorf("dialled %s", d)
		}
	}
}

// What a zone answers is bounded, and a sandbox cannot make us ask without end.
func TestRealAddressesAreBounded(t *testing.T) {
	b := newBed(t, real(egress.Rule{Name: "*.w.example"}, egress.Rule{Name: "many.example"}))
	var many []string
	for i := range maxFound + 1 {
		many = append(many, fmt.Sprintf("9.9.8.%d", i))
	}
	b.world.name("many.example", many...)
	rcode(t, b.query("many.example", dns.TypeA), dns.RcodeNameError)
	b.event(egress.EventDNS, egress.ReasonLimitNames)
	for i := range 100 {
		b.query(fmt.Sprintf("n%d.w.example", i), dns.TypeA)
	}
	if l, _ := b.world.touched(); len(l) > wildPerMinute+1 {
		t.Errorf("%d names were asked upstream", len(l))
	}
}

// A flow is judged for every name of its address, and all flows are when the
// policy changes: a zone whose names have one address cannot make that take long.
func TestNamesOfOneAddressAreBounded(t *testing.T) {
	b := newBindings()
	one := []netip.Addr{netip.MustParseAddr("9.9.9.9")}
	later := time.Now().Add(time.Minute)
	for i := range maxShared + 1 {
		told, ok := b.bind(egress.Name(fmt.Sprintf("n%d.example", i)), one, one, later)
		if !ok || (len(told) == 1) != (i < maxShared) {
			t.Fatalf("name %d: told %v, %t", i, told, ok)
		}
	}
	if told, ok := b.bind("n0.example", one, one, later); !ok || len(told) != 1 {
		t.Errorf("one of the first: told %v, %t", told, ok)
	}
	if n := len(b.names(one[0])); n != maxShared {
		t.Errorf("%d names have the address", n)
	}
}

// A name that is known stays known when there is room for no other.
func TestKnownNameWhenThereAreNoMore(t *testing.T) {
	b := newBindings()
	for i := range maxNames {
		b.found[egress.Name(fmt.Sprintf("n%d.example", i))] = found{}
	}
	one := []netip.Addr{netip.MustParseAddr("9.9.9.9")}
	if _, ok := b.bind("other.example", one, one, time.Now()); ok {
		t.Error("there is room for another name")
	}
	if told, ok := b.bind("n0.example", one, one, time.Now()); !ok || len(told) != 1 {
		t.Errorf("told %v, %t", told, ok)
	}
}

// D 61, 62: what was told gives nothing when the rule is gone.
func TestRealAddressOfARuleThatIsGone(t *testing.T) {
	b := newBed(t, real(egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}}))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	b.query("a.example", dns.TypeA)
	c, err := b.dial("9.9.9.9:7")
	if err != nil {
		t.Fatal(err)
	}
	b.event(egress.EventOpen, "")
	b.set(2, real(egress.Rule{Name: "b.example"}))
	b.event(egress.EventClose, egress.ReasonPolicyRevoked)
	c.Close()
	c, err = b.dial("9.9.9.9:7")
	refusedBy(t, b, c, err, egress.ReasonNameNotAllowed)
	over := egress.Rule{Name: "a.example", Protocol: egress.TCP, Ports: []int{7}, For: 1}
	b.set(3, real(over))
	c, err = b.dial("9.9.9.9:7")
	refusedBy(t, b, c, err, egress.ReasonRuleExpired)
}

// In mode full the name still decides, and an address that nobody was told is
// one as any other.
func TestRealAddressesInFull(t *testing.T) {
	b := newBed(t, egress.Policy{Mode: egress.ModeFull, DNS: egress.DNSReal, Deny: []egress.Deny{{Name: "evil.example"}}})
	echoes := listen(t, echo)
	for _, n := range []string{"a.example", "b.example"} {
		b.world.name(n, "9.9.9.9")
		b.query(n, dns.TypeA)
	}
	b.world.name("evil.example", "9.9.9.6")
	rcode(t, b.query("evil.example", dns.TypeA), dns.RcodeNameError)
	b.world.server("9.9.9.9:22", echoes)
	c, err := b.dial("9.9.9.9:22")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if e := b.event(egress.EventOpen, ""); e.Name != "" || e.Dial.String() != "9.9.9.9:22" {
		t.Errorf("got %+v", e)
	}
}
