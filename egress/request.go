package egress

import (
	"slices"
	"strings"
	"time"
)

// Request is an HTTP request on a flow.
type Request struct {
	Method string
	// Host is the Host header or :authority, as sent.
	Host string
	// Path is the escaped path as sent, without the query.
	Path string
	// Upgrade is whether it asks for WebSocket.
	Upgrade bool
}

// DecideRequest judges one request of a flow that Decide allows. Every request
// of a connection is judged, not the first only.
func (g *Generation) DecideRequest(at time.Time, f Flow, q Request) Decision {
	d := g.Decide(at, nil, f)
	if !d.Allowed() {
		return d
	}
	no := func(r Reason) Decision {
		d.Verdict, d.Reason = Refuse, r
		return d
	}
	switch {
	case q.Method == "CONNECT" || q.Method == "TRACE" || !token(q.Method):
		return no(ReasonMethodNotAllowed)
	case !SameAuthority(q.Host, f):
		return no(ReasonHostMismatch)
	case d.Protocol == TCP && (d.Rule == "full" || f.Host.Name == HostName):
		return d
	}
	best := ReasonMethodNotAllowed
	for i := range g.rules {
		r := &g.rules[i]
		if !r.matches(f.Host) || !r.hasPort(f.Port) || r.Protocol != d.Protocol || !r.ends.IsZero() && !at.Before(r.ends) {
			continue
		}
		reason := r.request(q)
		if reason == "" {
			d.Rule = r.id
			return d
		}
		if best == ReasonMethodNotAllowed || reason == ReasonPathAmbiguous {
			best = reason
		}
	}
	return no(best)
}

// request is why a rule does not allow a request.
func (r *rule) request(q Request) Reason {
	switch {
	case len(r.paths) > 0 && ambiguous(q.Path):
		return ReasonPathAmbiguous
	case len(r.Methods) > 0 && !slices.Contains(r.Methods, q.Method):
		return ReasonMethodNotAllowed
	case len(r.paths) > 0 && !slices.ContainsFunc(r.paths, func(p pathPattern) bool { return p.matches(q.Path) }):
		return ReasonPathNotAllowed
	case q.Upgrade && !r.WebSocket:
		return ReasonWebSocket
	}
	return ""
}

// SameAuthority tells whether a Host header names the flow's host, with no port,
// an empty one, which is none (RFC 3986, 3.2.3), or the flow's.
func SameAuthority(host string, f Flow) bool {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i+1:]
		if port != "" && port != utoa(f.Port) {
			return false
		}
	}
	if strings.HasSuffix(host, ":") && strings.Contains(name, ":") && !strings.HasSuffix(name, "]") {
		return false // an address without its brackets
	}
	h, err := ParseHost(name)
	return err == nil && h == f.Host
}

// SecretsOf are the secrets of the rules for a flow that are alive.
func (g *Generation) SecretsOf(at time.Time, f Flow) []Secret {
	var out []Secret
	for i := range g.rules {
		r := &g.rules[i]
		if r.matches(f.Host) && r.hasPort(f.Port) && r.Protocol == HTTPS && (r.ends.IsZero() || at.Before(r.ends)) {
			out = append(out, r.Inject...)
		}
	}
	return out
}
