package egress

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func gen(t testing.TB, p Policy) *Generation {
	t.Helper()
	g, err := Compile(p, Floor{Host: []netip.Addr{netip.MustParseAddr("8.0.0.1")}}, 1, start)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func restricted(rules ...Rule) Policy { return Policy{Mode: ModeRestricted, Rules: rules} }

func flow(t testing.TB, host string, port uint16) Flow {
	t.Helper()
	h, err := ParseHost(host)
	if err != nil {
		t.Fatal(err)
	}
	return Flow{Host: h, Port: port, Transport: OverTCP}
}

func with(f Flow, change func(*Flow)) Flow {
	change(&f)
	return f
}

func hello(sni string) func(*Flow) {
	return func(f *Flow) { f.Peek = &Seen{Kind: SeenTLS, Server: sni} }
}

func resolved(addrs ...string) func(*Flow) {
	return func(f *Flow) {
		f.Resolved = true
		for _, a := range addrs {
			f.Addrs = append(f.Addrs, netip.MustParseAddr(a))
		}
	}
}

func TestDecide(t *testing.T) {
	std := restricted(Rule{Name: "allowed.example"}, Rule{Name: "*.w.example"}, Rule{Name: "plain.example", Protocol: HTTP},
		Rule{Name: "db.example", Protocol: TCP, Ports: []int{5432}, Private: []string{"10.1.2.0/24"}},
		Rule{Name: "dns.example", Protocol: UDP, Ports: []int{53}}, Rule{CIDR: "9.9.9.0/24", Protocol: TCP, Ports: []int{853}},
		Rule{Name: "short.example", For: 2 * time.Second}, Rule{Name: "api.example", Paths: []string{"/v1/**"}, Methods: []string{"GET"}}, Rule{Name: "bücher.example"})
	denied := std
	denied.Deny = []Deny{{Name: "allowed.example"}, {CIDR: "9.9.9.9/32"}}
	deniedPort := std
	deniedPort.Deny = []Deny{{Name: "**.w.example", Ports: []int{443}}}
	full := Policy{Mode: ModeFull}
	fullDenied, tunnel := full, full
	fullDenied.Deny = denied.Deny
	tunnel.Exempt = []string{Synthetic.String()}
	ok := flow(t, "allowed.example", 443)
	for _, c := range []struct {
		name   string
		policy Policy
		flow   Flow
		after  time.Duration
		want   Reason // "" means allowed
		class  Class
	}{
		{"D2 no rule", restricted(), ok, 0, ReasonNameNotAllowed, ""},
		{"none", Policy{}, ok, 0, ReasonNameNotAllowed, ""},
		{"D3", std, ok, 0, "", ""},
		{"D6 below", std, flow(t, "secret.allowed.example", 443), 0, ReasonNameNotAllowed, ""},
		{"D13 literal", std, flow(t, "9.9.8.8", 443), 0, ReasonIPLiteral, ""},
		{"unmapped", std, flow(t, "198.18.3.4", 443), 0, ReasonUnmappedAddr, ""},
		{"D14", std, with(ok, hello("evil.example")), 0, ReasonSNIMismatch, ""},
		{"D15 none", std, with(ok, hello("")), 0, ReasonSNIMissing, ""},
		{"D15 literal", std, with(ok, hello("9.9.9.9")), 0, ReasonSNIMismatch, ""},
		{"D17", std, with(ok, func(f *Flow) { f.Peek = &Seen{Kind: SeenTLS, Server: "allowed.example", ECH: true} }), 0, ReasonECH, ""},
		{"D18", std, with(flow(t, "api.example", 443), func(f *Flow) { f.Peek = &Seen{Kind: SeenTLS, Server: "api.example", ECH: true} }), 0, "", ""},
		{"D25", std, flow(t, "allowed.example", 8443), 0, ReasonPortNotAllowed, ""},
		{"D27", std, with(ok, func(f *Flow) { f.Peek = &Seen{Kind: SeenOther} }), 0, ReasonProtoNotAllowed, ""},
		{"D69 silent", std, with(ok, func(f *Flow) { f.Peek = &Seen{Kind: SeenSilent} }), 0, ReasonHelloTimeout, ""},
		{"D31", std, with(ok, hello("ALLOWED.EXAMPLE.")), 0, "", ""},
		{"D33 one", std, flow(t, "a.w.example", 443), 0, "", ""},
		{"D33 apex", std, flow(t, "w.example", 443), 0, ReasonNameNotAllowed, ""},
		{"D33 two", std, flow(t, "a.b.w.example", 443), 0, ReasonNameNotAllowed, ""},
		{"D38", std, flow(t, "169.254.169.254", 80), 0, ReasonAddrDenied, ClassMetadata},
		{"D38 full", full, flow(t, "168.63.129.16", 80), 0, ReasonAddrDenied, ClassMetadata},
		{"D39", std, flow(t, "[64:ff9b::a9fe:a9fe]", 80), 0, ReasonAddrDenied, ClassEmbedded},
		{"D41", std, with(ok, resolved("127.0.0.1")), 0, ReasonAddrDenied, ClassLoopback},
		{"D41 private", std, with(ok, resolved("10.0.0.5")), 0, ReasonAddrDenied, ClassPrivate},
		{"D43", std, with(ok, resolved("9.9.9.9", "10.0.0.5")), 0, ReasonAddrMixed, ClassPrivate},
		{"resolved", std, with(ok, resolved("9.9.9.9", "2620:fe::fe")), 0, "", ""},
		{"nothing", std, with(ok, resolved()), 0, ReasonUnresolved, ""},
		{"D46 host", full, with(ok, resolved("8.0.0.1")), 0, ReasonAddrDenied, ClassHost},
		{"D46 literal", full, flow(t, "127.0.0.1", 80), 0, ReasonAddrDenied, ClassLoopback},
		{"D46 private", full, flow(t, "10.1.1.1", 80), 0, ReasonAddrDenied, ClassPrivate},
		{"D47", std, with(flow(t, "db.example", 5432), resolved("10.1.2.9")), 0, "", ""},
		{"D47 outside", std, with(flow(t, "db.example", 5432), resolved("10.1.3.9")), 0, ReasonAddrDenied, ClassPrivate},
		{"D49", std, with(ok, func(f *Flow) { f.Transport = OverUDP }), 0, ReasonProtoNotAllowed, ""},
		{"udp", std, with(flow(t, "dns.example", 53), func(f *Flow) { f.Transport = OverUDP }), 0, "", ""},
		{"udp rule over tcp", std, flow(t, "dns.example", 53), 0, ReasonProtoNotAllowed, ""},
		{"D50", full, with(ok, func(f *Flow) { f.Transport = OverOther }), 0, ReasonProtoNotAllowed, ""},
		{"D61 before", std, flow(t, "short.example", 443), time.Second, "", ""},
		{"D61 after", std, flow(t, "short.example", 443), 2 * time.Second, ReasonRuleExpired, ""},
		{"cidr", std, flow(t, "9.9.9.9", 853), 0, "", ""},
		{"cidr port", std, flow(t, "9.9.9.9", 443), 0, ReasonPortNotAllowed, ""},
		{"deny name", denied, ok, 0, ReasonDeniedByRule, ""},
		{"deny literal", denied, flow(t, "9.9.9.9", 853), 0, ReasonDeniedByRule, ""},
		{"deny resolved", denied, with(flow(t, "a.w.example", 443), resolved("9.9.9.9")), 0, ReasonDeniedByRule, ""},
		{"deny literal in IPv6", fullDenied, flow(t, "[::ffff:9.9.9.9]", 443), 0, ReasonDeniedByRule, ""},
		{"deny resolved in IPv6", fullDenied, with(flow(t, "a.w.example", 443), resolved("::ffff:9.9.9.9")), 0, ReasonDeniedByRule, ""},
		{"deny translated", fullDenied, with(flow(t, "a.w.example", 443), resolved("9.9.9.8", "64:ff9b::909:909")), 0, ReasonDeniedByRule, ""},
		{"beside the denied in IPv6", fullDenied, flow(t, "[::ffff:9.9.9.8]", 443), 0, "", ""},
		{"unmapped, of a tunnel", tunnel, flow(t, "198.18.3.4", 443), 0, ReasonUnmappedAddr, ""},
		{"unmapped, of a tunnel, in IPv6", tunnel, flow(t, "[::ffff:198.18.3.4]", 443), 0, ReasonUnmappedAddr, ""},
		{"deny port", deniedPort, flow(t, "a.w.example", 443), 0, ReasonDeniedByRule, ""},
		{"deny another port", deniedPort, flow(t, "a.w.example", 80), 0, ReasonPortNotAllowed, ""},
		{"deny port, look-up", deniedPort, with(flow(t, "a.w.example", AnyPort), func(f *Flow) { f.Transport = OverDNS }), 0, "", ""},
		{"deny name, look-up", denied, with(flow(t, "allowed.example", AnyPort), func(f *Flow) { f.Transport = OverDNS }), 0, ReasonDeniedByRule, ""},
		{"D35", std, with(flow(t, "xn--bcher-kva.example", 443), hello("xn--bcher-kva.example")), 0, "", ""},
		{"D35 raw", std, with(flow(t, "xn--bcher-kva.example", 443), hello("bücher.example")), 0, ReasonSNIMismatch, ""},
		{"D2 no rule, look-up", restricted(), with(flow(t, "allowed.example", AnyPort), func(f *Flow) { f.Transport = OverDNS }), 0, ReasonNameNotAllowed, ""},
		{"localhost", full, flow(t, "x.localhost", 80), 0, ReasonAddrDenied, ClassLoopback},
		{"local", full, flow(t, "printer.local", 80), 0, ReasonNameNotAllowed, ""},
		{"single label", full, flow(t, "intranet", 80), 0, ReasonNameNotAllowed, ""},
		{"full", full, flow(t, "any.example", 8080), 0, "", ""},
		{"full mail", full, flow(t, "any.example", 25), 0, ReasonPortNotAllowed, ""},
		{"plain", std, with(flow(t, "plain.example", 80), func(f *Flow) { f.Peek = &Seen{Kind: SeenHTTP, Host: "x"} }), 0, "", ""},
		{"plain tls", std, with(flow(t, "plain.example", 80), hello("plain.example")), 0, ReasonProtoNotAllowed, ""},
	} {
		d := gen(t, c.policy).Decide(start.Add(c.after), Uses{}, c.flow)
		if d.Reason != c.want || d.Class != c.class || d.Allowed() != (c.want == "") {
			t.Errorf("%s: got %+v, want %q %q", c.name, d, c.want, c.class)
		}
	}
}

func TestHints(t *testing.T) {
	g := gen(t, restricted(Rule{Name: "*.w.example"}))
	for host, want := range map[string]string{"a.b.w.example": "**.w.example", "w.example": "w.example", "other.example": "--net allow:other.example"} {
		if d := g.Decide(start, nil, flow(t, host, 443)); !strings.Contains(d.Hint, want) {
			t.Errorf("%s: hint %q, want %q in it", host, d.Hint, want)
		}
	}
	// a hint that is followed helps
	d := g.Decide(start, nil, flow(t, "other.example", 8443))
	p, err := ParseShort(strings.TrimPrefix(d.Hint, "--net "))
	if err != nil {
		t.Fatal(err)
	}
	if d := gen(t, p).Decide(start, nil, flow(t, "other.example", 8443)); !d.Allowed() {
		t.Errorf("the hint does not help: %+v", d)
	}
}

func TestRequests(t *testing.T) {
	g := gen(t, restricted(Rule{Name: "api.example", Methods: []string{"GET"}, Paths: []string{"/v1/**", "/one", "/x/*/y"}},
		Rule{Name: "api.example", Methods: []string{"POST"}, Paths: []string{"/up"}}, Rule{Name: "ws.example", WebSocket: true}))
	api := flow(t, "api.example", 443)
	for _, c := range []struct {
		q    Request
		want Reason
	}{
		{Request{Method: "GET", Host: "api.example", Path: "/v1/items"}, ""},
		{Request{Method: "GET", Host: "API.example:443", Path: "/one"}, ""},
		{Request{Method: "GET", Host: "api.example", Path: "/x/1/y"}, ""},
		{Request{Method: "POST", Host: "api.example", Path: "/up"}, ""},
		{Request{Method: "GET", Host: "api.example", Path: "/x//y"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/x/y"}, ReasonPathNotAllowed},
		{Request{Method: "GET", Host: "api.example", Path: "/v2"}, ReasonPathNotAllowed},
		{Request{Method: "PUT", Host: "api.example", Path: "/v1/x"}, ReasonMethodNotAllowed},
		{Request{Method: "CONNECT", Host: "api.example", Path: "/v1/x"}, ReasonMethodNotAllowed},
		{Request{Method: "TRACE", Host: "api.example", Path: "/v1/x"}, ReasonMethodNotAllowed},
		{Request{Method: "GET", Host: "other.example", Path: "/v1/x"}, ReasonHostMismatch},
		{Request{Method: "GET", Host: "api.example:", Path: "/one"}, ""},
		{Request{Method: "GET", Host: "api.example::", Path: "/one"}, ReasonHostMismatch},
		{Request{Method: "GET", Host: ":", Path: "/one"}, ReasonHostMismatch},
		{Request{Method: "GET", Host: "api.example:8443", Path: "/v1/x"}, ReasonHostMismatch},
		{Request{Method: "GET", Host: "api.example", Path: "/v1/x", Upgrade: true}, ReasonWebSocket},
		// D 54
		{Request{Method: "GET", Host: "api.example", Path: "/v1/../admin"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1/%2e%2e/admin"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1//x"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1%2fx"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1/%252e%252e/x"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: `/v1\x`}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1/%0d%0a"}, ReasonPathAmbiguous},
		{Request{Method: "GET", Host: "api.example", Path: "/v1/%zz"}, ReasonPathAmbiguous},
	} {
		if d := g.DecideRequest(start, api, c.q); d.Reason != c.want || d.Allowed() != (c.want == "") {
			t.Errorf("%+v: got %+v, want %q", c.q, d, c.want)
		}
	}
	if d := g.DecideRequest(start, flow(t, "ws.example", 443), Request{Method: "GET", Host: "ws.example", Path: "/", Upgrade: true}); !d.Allowed() {
		t.Errorf("websocket: %+v", d)
	}
}

// Whatever a flow is and however far it is known: an empty list allows nothing,
// a denied host stays denied, and to know more never opens what was closed.
func TestDecideProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hosts := []string{"allowed.example", "a.w.example", "w.example", "evil.example", "9.9.9.9", "10.0.0.1", "169.254.169.254", "::1", "198.18.0.9", "localhost", "x"}
	addrs := []string{"9.9.9.9", "10.0.0.5", "127.0.0.1", "2620:fe::fe", "8.0.0.1", "64:ff9b::a00:1"}
	pick := func(s []string) string { return s[r.IntN(len(s))] }
	for range 20000 {
		p := Policy{Mode: Mode(r.IntN(3))}
		if p.Mode != ModeNone {
			for range r.IntN(3) {
				p.Rules = append(p.Rules, Rule{Name: pick([]string{"allowed.example", "*.w.example", "**.example.org", "x"}), Protocol: Protocol(r.IntN(6)), Ports: []int{443, 80}[:1+r.IntN(2)], For: time.Duration(r.IntN(3)) * time.Second})
			}
			if r.IntN(4) == 0 {
				p.Deny = []Deny{{Name: "allowed.example"}}
			}
		}
		g := gen(t, p)
		f := flow(t, pick(hosts), []uint16{0, 80, 443, 22, 25}[r.IntN(5)])
		f.Transport = []Transport{OverTCP, OverUDP, OverDNS, OverOther}[r.IntN(4)]
		at := start.Add(time.Duration(r.IntN(4)) * time.Second)
		less := g.Decide(at, nil, f)
		more := f
		if r.IntN(2) == 0 {
			more.Peek = &Seen{Kind: []Kind{SeenTLS, SeenHTTP, SeenOther, SeenSilent}[r.IntN(4)], Server: pick(hosts), ECH: r.IntN(4) == 0}
		}
		if r.IntN(2) == 0 {
			more = with(more, resolved(pick(addrs), pick(addrs)))
		}
		known := g.Decide(at, nil, more)
		if known.Allowed() && !less.Allowed() {
			t.Fatalf("%+v: to know more opened it: %+v, before %+v", more, known, less)
		}
		if known.Allowed() {
			switch {
			case p.Mode == ModeNone, p.Mode == ModeRestricted && len(p.Rules) == 0:
				t.Fatalf("%+v allowed without a rule", more)
			case len(p.Deny) > 0 && f.Host.Name == "allowed.example":
				t.Fatalf("%+v allowed although denied", more)
			case f.Transport == OverOther, f.Host.Name == "localhost", f.Host.Name == "" && f.Host.String() != "9.9.9.9":
				t.Fatalf("%+v allowed through the floor", more)
			}
			for _, a := range more.Addrs {
				if c := g.floor.Classify(a); c != ClassPublic {
					t.Fatalf("%+v allowed to a %s address", more, c)
				}
			}
		} else if known.Reason == "" {
			t.Fatalf("%+v denied without a reason", more)
		}
		if again := g.Decide(at, nil, more); again != known {
			t.Fatalf("%+v judged twice: %+v and %+v", more, known, again)
		}
	}
}

func FuzzAmbiguous(f *testing.F) {
	for _, s := range []string{"/v1/x", "/v1/../x", "/%2e", "/a%20b", "//", "/a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ambiguous(s) {
			return
		}
		if !strings.HasPrefix(s, "/") || strings.Contains(s, "/../") || strings.HasSuffix(s, "/..") || strings.Contains(strings.ToLower(s), "%2f") || strings.ContainsAny(s, "\\\x00\r\n ") {
			t.Fatalf("%q is not ambiguous", s)
		}
	})
}

func FuzzShort(f *testing.F) {
	for _, s := range []string{"none", "full", "allow:a.example", "allow:a.example:80,http://b.example", "allow:9.9.9.9:53", "allow:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseShort(s)
		if err != nil {
			return
		}
		if bad := p.Check(); bad != nil {
			t.Fatalf("%q is read as what does not hold: %v", s, bad)
		}
		if _, err := Compile(p, Floor{}, 1, start); err != nil {
			t.Fatal(err)
		}
	})
}
