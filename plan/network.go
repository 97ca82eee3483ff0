package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
)

// gateway is the sandbox's resolver, as package egress/netd answers at it.
const gateway = "198.18.0.1"

// HasNetwork tells whether the sandbox has a way out.
func (p Plan) HasNetwork() bool { return p.NetPolicy != nil }

// HasIPv6 tells whether the way out is one of IPv6, too.
func (p Plan) HasIPv6() bool { return p.NetPolicy != nil && p.NetPolicy.IPv6 }

// Intercepts tells whether TLS of the sandbox is ended by the network process,
// which then has to be trusted inside.
func (p Plan) Intercepts() bool {
	return p.NetPolicy != nil && slices.ContainsFunc(p.NetPolicy.Rules, egress.Rule.Intercepts)
}

// Injects tells whether the network puts a variable of the host into requests,
// so that the program is shown what stands for it.
func (p Plan) Injects(variable string) bool {
	return p.NetPolicy != nil && slices.ContainsFunc(p.NetPolicy.Rules, func(r egress.Rule) bool {
		return slices.ContainsFunc(r.Inject, func(s egress.Secret) bool { return s.Variable == variable })
	})
}

// Injected is the problem of setting such a variable for a program.
func Injected(variable string) Problem {
	return Problem{
		What: "cannot set variable " + strconv.Quote(variable), Rule: "the network policy puts it into requests, and the program is shown what stands for it",
		Remedy: "leave the variable out, or inject another one",
	}
}

// network decides the mode. A network needs a device, a process to hold it, and
// a profile that has sockets.
func (r *resolver) network() {
	n := r.policy.Net
	r.plan.Net = n.Mode.String()
	if n.Mode == egress.ModeNone {
		return
	}
	r.plan.NetPolicy = &n
	for name := range r.policy.Env {
		if r.plan.Injects(name) {
			r.problems = append(r.problems, Injected(name))
		}
	}
	if r.policy.Profile == policy.ProfileStrict {
		r.refuse("cannot give network "+r.plan.Net, "profile strict has no IP sockets", "use profile default")
	}
	r.hostPorts(n.HostPorts)
	if n.IPv6 && r.facts.IPv6 == No {
		r.refuse("cannot give the program IPv6", "the kernel has none: there is no /proc/net/if_inet6", "leave it out: programs reach hosts that have IPv6 only over IPv4, too")
	}
	if r.facts.Network == nil {
		return
	}
	if x := r.facts.Network(); x.What != "" {
		r.refuse(x.What, x.Rule, x.Remedy)
	}
}

// hostPorts grants ports of this machine: not without consent, and none of ours.
func (r *resolver) hostPorts(ports []int) {
	for _, p := range ports {
		if slices.Contains(r.facts.OwnPorts, p) {
			r.refuse(fmt.Sprintf("cannot grant port %d of this machine", p), "isolate itself listens there", "leave it out")
		}
	}
	if len(ports) > 0 {
		r.weaken(policy.HostPorts, fmt.Sprintf("cannot grant ports of this machine: %s", portsText(ports)), "services on its loopback trust whoever can connect to them",
			fmt.Sprintf("say so with allow = [%q]", policy.HostPorts))
	}
}

func portsText(ports []int) string {
	var s []string
	for _, p := range ports {
		s = append(s, strconv.Itoa(p))
	}
	return strings.Join(s, ", ")
}

// resolver is the address of the sandbox's name server.
func (r *resolver) resolver() string {
	if r.plan.NetPolicy == nil {
		return ""
	}
	return gateway
}

// networkText is the network for people.
func (p Plan) networkText(line func(key, format string, args ...any)) {
	if p.NetPolicy == nil {
		line("network", "none: own namespace, loopback only")
		return
	}
	n := *p.NetPolicy
	switch {
	case n.Mode == egress.ModeFull:
		line("network", "full: every public address; not this machine, no private address, no metadata service")
	case len(n.Rules)+len(n.HostPorts) == 0:
		line("network", "restricted: no rule, so nothing can be reached")
	default:
		line("network", "restricted: own namespace; what is listed can be reached, nothing else")
	}
	if len(n.HostPorts) > 0 {
		line("", "allow port %s of this machine's loopback, at %s", portsText(n.HostPorts), egress.HostName)
	}
	if n.IPv6 {
		line("", "IPv6 inside, beside IPv4")
	}
	if n.DNS == egress.DNSReal {
		line("", "names have their real addresses inside; connections are judged by name")
	}
	for _, r := range n.Rules {
		line("", "allow %s", ruleText(r))
	}
	for _, d := range n.Deny {
		line("", "deny %s%s", d.Name, d.CIDR)
	}
}

// ruleText is a rule for people. Secrets are named, never shown.
func ruleText(r egress.Rule) string {
	s := r.String()
	if len(r.Methods) > 0 {
		s += " " + strings.Join(r.Methods, ",")
	}
	if len(r.Paths) > 0 {
		s += " " + strings.Join(r.Paths, " ")
	}
	if r.For > 0 {
		s += fmt.Sprintf(" for %s", r.For)
	}
	if !r.Until.IsZero() {
		s += " until " + r.Until.Format("2006-01-02 15:04:05 MST")
	}
	for _, x := range r.Inject {
		s += fmt.Sprintf(" with %s from $%s", x.Header, x.Variable)
	}
	return s
}
