package egress

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Target is what Explain is asked about: a connection and, where Path is not
// empty, a request on it.
type Target struct {
	Flow
	Method string
	Path   string // with a slash at its beginning, without the query
}

// ParseTarget reads "NAME:PORT", "NAME" (port 443), a URL, or a method and a URL.
func ParseTarget(text string) (Target, error) {
	t := Target{Method: "GET"}
	s, port := text, "443"
	method, rest, asked := strings.Cut(s, " ")
	if asked {
		t.Method, s = method, rest
	}
	if rest, ok := strings.CutPrefix(s, "http://"); ok {
		s, port = rest, "80"
	}
	s = strings.TrimPrefix(s, "https://")
	s, path, found := strings.Cut(s, "/")
	if found || asked {
		path, _, _ = strings.Cut(path, "#")
		path, _, _ = strings.Cut(path, "?")
		t.Path = "/" + path
	}
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Target{}, fmt.Errorf("cannot explain %q: %q is not a port", text, port)
	}
	h, err := ParseHost(host)
	if err != nil {
		return Target{}, fmt.Errorf("cannot explain %q: %w", text, err)
	}
	t.Flow = Flow{Host: h, Port: uint16(n), Transport: OverTCP}
	return t, nil
}

// Explain says in words what a policy does with a flow and a request on it: the
// decision functions, run dry. Addresses are not looked up.
func Explain(p Policy, t Target) (string, Decision, error) {
	now := time.Now()
	g, err := Compile(p, Floor{}, 1, now)
	if err != nil {
		return "", Decision{}, err
	}
	f := t.Flow
	d := g.Decide(now, nil, f)
	to := net.JoinHostPort(f.Host.String(), strconv.Itoa(int(f.Port)))
	judged := d.Protocol == HTTP || d.Protocol == HTTPS && d.TLS == Intercept
	if d.Allowed() && judged && t.Path != "" {
		d = g.DecideRequest(now, f, Request{Method: t.Method, Host: f.Host.String(), Path: t.Path})
		to = t.Method + " " + to + strings.Trim(strconv.QuoteToASCII(t.Path), `"`)
	}
	if !d.Allowed() {
		return denied(to, f, d), d, nil
	}
	s := fmt.Sprintf("%s: allowed by %s\n", to, d.Rule)
	switch {
	case judged && t.Path != "":
	case judged && d.Protocol == HTTPS:
		s += "TLS is ended here; every request is judged: give a URL to ask about one\n"
	case d.Protocol == HTTPS || d.Protocol == TLSOnly:
		s += "TLS passes through; it must name " + f.Host.String()
		if t.Path != "" {
			s += ", and no path is looked at"
		}
		s += "\n"
	case judged:
		s += "every request is judged: give a URL to ask about one\n"
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
	i := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.String() == d.Rule })
	if i < 0 || len(p.Rules[i].Private) == 0 {
		return s + "an address that is private, of this machine or of a metadata service is refused when the name leads to one\n", d, nil
	}
	s += "a private address is refused when the name leads to one that is not in " + strings.Join(p.Rules[i].Private, ", ") + "; one of this machine or of a metadata service always is\n"
	return s, d, nil
}

// denied says why a flow, or a request on it, is denied.
func denied(to string, f Flow, d Decision) string {
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
	return s + "\n"
}
