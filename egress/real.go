package egress

import "time"

// DNS says which addresses names have inside.
type DNS int

// What a look-up answers.
const (
	// DNSSynthetic gives every name an address of its own, which means nothing
	// outside. Nothing is asked upstream until a connection is opened.
	DNSSynthetic DNS = iota
	// DNSReal answers with the real addresses, when all of them may be reached.
	// Several names may then share one, and a connection has to say which it
	// is for.
	DNSReal
)

var dnsNames = names[DNS]{"synthetic", "real"}

func (d DNS) String() string                { return dnsNames.text(d) }
func (d DNS) MarshalText() ([]byte, error)  { return dnsNames.marshal(d) }
func (d *DNS) UnmarshalText(b []byte) error { return dnsNames.unmarshal("dns", d, b) }

// DNSModes are the names of what a look-up may answer.
func DNSModes() []string { return dnsNames }

// among judges a flow to an address that was told for names: it is to one of
// them, or to the address itself where a rule allows that. Where several could
// be meant, the first bytes have to name one. Whoever is meant is judged, and
// dialled, by name.
func (g *Generation) among(at time.Time, uses Uses, f Flow) Decision {
	to := func(h Host, peek *Seen) Decision {
		one := f
		one.Host, one.Names, one.Peek = h, nil, peek
		return g.Decide(at, uses, one)
	}
	var may []Host
	var speaks Host // one that says whom it is for
	var refused Decision
	for _, n := range f.Names {
		h := Host{Name: n}
		d := to(h, nil)
		if !d.Allowed() {
			refused = d // of the one that was looked up last
			continue
		}
		may = append(may, h)
		if speaks.Name == "" && d.Protocol.Peeks() {
			speaks = h
		}
	}
	if len(may) == 1 {
		return to(may[0], f.Peek)
	}
	if len(may) > 1 && speaks.Name != "" {
		if f.Peek == nil {
			d := to(speaks, nil)
			d.Host = Host{} // not known yet
			return d
		}
		for _, h := range may {
			if f.Peek.isFor(h, f.Port) {
				return to(h, f.Peek)
			}
		}
	}
	if d := to(f.Host, f.Peek); d.Allowed() {
		return d
	}
	switch {
	case len(may) == 0:
		return refused
	case speaks.Name != "":
		return to(speaks, f.Peek) // which says what is missing
	}
	return Decision{Verdict: Refuse, Reason: ReasonAddrShared, Host: f.Host, Hint: `--net-dns synthetic, which gives each name an address of its own`}
}

// isFor tells whether first bytes are for a host.
func (s *Seen) isFor(h Host, port uint16) bool {
	switch s.Kind {
	case SeenTLS:
		return sameName(s.Server, h.Name)
	case SeenHTTP:
		return SameAuthority(s.Host, Flow{Host: h, Port: port})
	}
	return false
}

// Peeks tells whether the first bytes of a protocol say which host they are for.
func (p Protocol) Peeks() bool { return p == HTTPS || p == HTTP || p == TLSOnly }
