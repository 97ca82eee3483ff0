package egress

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// ParseTarget reads "NAME:PORT", "NAME" (port 443) or a URL.
func ParseTarget(s string) (Flow, error) {
	port := "443"
	if rest, ok := strings.CutPrefix(s, "http://"); ok {
		s, port = rest, "80"
	}
	s = strings.TrimPrefix(s, "https://")
	s, _, _ = strings.Cut(s, "/")
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Flow{}, fmt.Errorf("cannot explain %q: %q is not a port", s, port)
	}
	h, err := ParseHost(host)
	if err != nil {
		return Flow{}, fmt.Errorf("cannot explain %q: %w", s, err)
	}
	return Flow{Host: h, Port: uint16(n), Transport: OverTCP}, nil
}

// Explain says in words what a policy does with a flow: the decision function,
// run dry. Addresses are not looked up.
func Explain(p Policy, f Flow) (string, Decision, error) {
	now := time.Now()
	g, err := Compile(p, Floor{}, 1, now)
	if err != nil {
		return "", Decision{}, err
	}
	d := g.Decide(now, nil, f)
	to := net.JoinHostPort(f.Host.String(), strconv.Itoa(int(f.Port)))
	if !d.Allowed() {
		s := fmt.Sprintf("%s: denied: %s (%s)", to, d.Reason.Text(), d.Reason)
		if d.Class != "" {
			s += fmt.Sprintf("; the address is %s", d.Class)
		}
		if d.Rule != "" {
			s += "; nearest rule: " + d.Rule
		}
		switch {
		case d.Hint != "":
			s += "\nto allow it: " + d.Hint
		case d.Class == ClassPrivate && f.Host.Addr.Is4():
			s += "\nto allow it: --net allow:" + to
		case d.Class == ClassLoopback:
			s += "\nno rule opens the loopback of this machine; --net host:" + utoa(f.Port) + " grants this port of it, at " + string(HostName)
		}
		return s + "\n", d, nil
	}
	s := fmt.Sprintf("%s: allowed by %s\n", to, d.Rule)
	switch {
	case d.Protocol == HTTPS && d.TLS == Intercept:
		s += "TLS is ended here; every request is judged\n"
	case d.Protocol == HTTPS || d.Protocol == TLSOnly:
		s += "TLS passes through; it must name " + f.Host.String() + "\n"
	case d.Protocol == HTTP:
		s += "every request is judged\n"
	}
	switch f.Host.Name {
	case "":
		return s, d, nil
	case HostName:
		return s + "it leads to this port on the loopback of this machine, and to nothing else there\n", d, nil
	}
	if p.DNS == DNSReal {
		s += "it has its real addresses inside, if all of them may be reached; where other names share one, the connection has to say which it is for\n"
	}
	if p.IPv6 {
		s += "it has addresses of IPv4 and IPv6 inside\n"
	}
	s += "an address that is private, of this machine or of a metadata service is refused when the name leads to one\n"
	return s, d, nil
}
