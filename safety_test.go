package isolate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/egress"
)

func TestSafetyCounts(t *testing.T) {
	var c counters
	c.flows([]egress.Event{
		{Type: egress.EventOpen, Rule: "pypi"}, {Type: egress.EventOpen, Rule: "full"}, {Type: egress.EventOpen},
		{Type: egress.EventOpen, Rule: "pypi", Again: true},
		{Type: egress.EventDeny, Name: "evil.example"}, {Type: egress.EventDeny, Class: egress.ClassMetadata},
		{Type: egress.EventDeny, Dst: netip.MustParseAddrPort("10.0.0.1:80")},
		{Type: egress.EventFlood, Class: egress.ClassMetadata, Count: 7}, {Type: egress.EventStop},
	})
	c.ended(Result{
		Reason:  ReasonExit,
		Blocked: denial.Summary{Total: 3, ByClass: map[string]int64{"metadata": 2, denial.ClassKind: 1}},
		Calls: &Calls{Calls: []bridge.Record{
			{Via: bridge.ViaFile, State: bridge.Done, Wall: time.Second, Waited: 500 * time.Millisecond, Ran: 400 * time.Millisecond},
			{Via: bridge.ViaSocket, State: bridge.Done, Wall: 60 * time.Microsecond, Ran: 20 * time.Microsecond},
			{Via: bridge.ViaFile, State: bridge.Refused, Wall: time.Second}, {Via: bridge.ViaFile, State: bridge.Done, Wall: time.Second},
		}},
	})
	s := c.safety.stats()
	if s.Granted != 1 || s.Full != 1 || s.Ungranted != 1 {
		t.Errorf("flows: %+v", s)
	}
	for class, want := range map[string]uint64{"metadata": 10, "kind": 1, "name": 1, "private": 1} {
		if s.Attempts[class] != want {
			t.Errorf("%s: %d, want %d", class, s.Attempts[class], want)
		}
	}
	file, socket := s.CallTime["file"], s.CallTime["socket"]
	if file.Count != 1 || file.Sum != 100*time.Millisecond || file.Buckets[len(file.Buckets)-1] != 1 || file.Buckets[len(file.Buckets)-2] != 0 {
		t.Errorf("file: %+v", file)
	}
	if socket.Count != 1 || socket.Sum != 40*time.Microsecond || socket.Buckets[0] != 0 || socket.Buckets[1] != 1 {
		t.Errorf("socket: %+v", socket)
	}
}
