package egress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// HostName is the name under which a program reaches the services that
// HostPorts grant: those on the loopback of this machine. No rule can mean it,
// and no resolver is asked for it.
const HostName Name = "host.isolate.internal"

// hostPrefix begins the short form of HostPorts.
const hostPrefix = "host:"

// hostPort judges a flow to the loopback of this machine, by the ports that are
// granted one by one.
func (g *Generation) hostPort(f Flow) Decision {
	d := refuse(ReasonNameNotAllowed)
	switch granted := f.Port == AnyPort || slices.Contains(g.hostPorts, int(f.Port)); {
	case len(g.hostPorts) == 0:
		d.Hint = "--net " + hostPrefix + "PORT"
	case f.Transport == OverUDP:
		d.Reason = ReasonProtoNotAllowed
	case !granted:
		d.Reason = ReasonPortNotAllowed
	default:
		return Decision{Verdict: Allow, Rule: hostRule(f.Port), Protocol: TCP}
	}
	if f.Port != AnyPort && f.Transport == OverTCP {
		d.Hint = "--net " + hostRule(f.Port)
	}
	return d
}

// hostRule names the grant of a port, as the short form does.
func hostRule(port uint16) string {
	if port == AnyPort {
		return "host"
	}
	return hostPrefix + utoa(port)
}

// parseHostPorts reads "PORT[,PORT…]", the rest of the short form.
func parseHostPorts(list string) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(item, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("cannot grant %q of this machine: it is not a port", item)
		}
		out = append(out, int(n))
	}
	return out, nil
}

// maxHostPorts bounds the ports that may be granted.
const maxHostPorts = 64

// hostPorts checks the ports of this machine that are granted.
func (c *checker) hostPorts(ports []int) {
	for i, p := range ports {
		switch {
		case p < 1 || p > 65535:
			c.add("host-ports", fmt.Sprintf("cannot grant port %d of this machine: ports are 1 to 65535", p), "write host-ports = [8000]")
		case slices.Contains(ports[:i], p):
			c.add("host-ports", fmt.Sprintf("cannot grant port %d of this machine twice", p), "remove one of them")
		}
	}
	if len(ports) > maxHostPorts {
		c.add("host-ports", fmt.Sprintf("cannot grant %d ports of this machine: the most is %d", len(ports), maxHostPorts), "grant those that the program needs")
	}
}
