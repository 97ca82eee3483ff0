package isolate

import (
	"net/netip"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/egress"
)

func netEvents(events []egress.Event) []audit.Event {
	out := make([]audit.Event, len(events))
	for i, e := range events {
		out[i] = netEvent(e)
	}
	return out
}

// netEvent is an event of the network as the log has it.
func netEvent(e egress.Event) audit.Event {
	gen, flow, port := int64(e.Gen), int64(e.Flow), int(e.Port)
	switch e.Type {
	case egress.EventStart:
		return audit.NetStart{Mode: e.Mode, Gen: gen}
	case egress.EventPolicy:
		return audit.NetPolicy{Mode: e.Mode, Gen: gen}
	case egress.EventDNS:
		q := audit.DNSQuery{Gen: gen, Name: e.Name, QType: e.QType, To: addressed(e.Dst), Verdict: string(e.Verdict), Reason: string(e.Reason), Rule: e.Rule}
		for _, a := range e.Addrs {
			q.Addrs = append(q.Addrs, a.String())
		}
		return q
	case egress.EventOpen:
		return audit.FlowOpen{Gen: gen, Flow: flow, Via: string(e.Via), Proto: e.Proto, Name: e.Name, Port: port, SNI: e.SNI, ALPN: e.ALPN, Dial: addressed(e.Dial), Rule: e.Rule}
	case egress.EventClose:
		return audit.FlowClose{Flow: flow, Name: e.Name, Port: port, BytesIn: e.BytesIn, BytesOut: e.BytesOut, Took: e.Took.Microseconds(), Reason: string(e.Reason)}
	case egress.EventRequest:
		return audit.HTTPRequest{Flow: flow, Method: e.Method, Host: e.Host, Path: e.Path, Verdict: string(e.Verdict), Reason: string(e.Reason),
			Rule: e.Rule, Status: e.Status, Location: e.Location, Scrubbed: e.Scrubs}
	case egress.EventFlood:
		return audit.NetFlood{Name: e.Name, To: addressed(e.Dst), Port: port, Proto: e.Proto, Reason: string(e.Reason), Count: int64(e.Count)}
	case egress.EventStop:
		return audit.NetStop{Reason: string(e.Reason)}
	}
	return audit.FlowDeny{Gen: gen, Flow: flow, Via: string(e.Via), Proto: e.Proto, Name: e.Name, To: addressed(e.Dst), Port: port, SNI: e.SNI,
		Reason: string(e.Reason), Class: string(e.Class), Rule: e.Rule}
}

func addressed(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
