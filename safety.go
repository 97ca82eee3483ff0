package isolate

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/egress"
)

// SecurityStats are the counts that the metrics of docs/metrics.md are made of,
// since the Runtime was opened. Kept sandboxes count when their runs end.
type SecurityStats struct {
	// Attempts are the socket calls and flows that were refused, by class: that
	// of the destination, "kind" for a kind of socket, "name" for a name that is
	// not allowed, "unrouted" for what only the sandbox's network saw.
	Attempts map[string]uint64 `json:"attempts"`
	// Granted are flows that a rule of an allow-list let out, Full those of
	// sandboxes with net full, Ungranted those that nothing allowed.
	Granted   uint64 `json:"granted"`
	Full      uint64 `json:"full"`
	Ungranted uint64 `json:"ungranted"`
	// CallTime are the times of answered tool calls, by transport, without
	// those of the tools and of persons.
	CallTime map[string]Histogram `json:"call_time"`
	// Recorded are how much the audit logs of ended runs have, by what, and
	// Counted how much there was, by who refused or answered it.
	Recorded map[string]uint64 `json:"recorded"`
	Counted  map[string]uint64 `json:"counted"`
}

// Histogram counts durations.
type Histogram struct {
	// Buckets[i] is how many were at most HistogramBounds[i]; Count is all.
	Buckets []uint64      `json:"buckets"`
	Count   uint64        `json:"count"`
	Sum     time.Duration `json:"sum_ns"`
}

// HistogramBounds are the upper ends of the buckets: around the bar of 250 µs
// for a round trip.
var HistogramBounds = []time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond,
}

func (h *Histogram) add(d time.Duration) {
	if h.Buckets == nil {
		h.Buckets = make([]uint64, len(HistogramBounds))
	}
	for i, bound := range HistogramBounds {
		if d <= bound {
			h.Buckets[i]++
		}
	}
	h.Count++
	h.Sum += d
}

// The classes of attempts that are not those of destinations.
const (
	classUnrouted = "unrouted"
	className     = "name"
)

// What completeness is counted of.
const (
	refusedCalls = "refused_calls"
	toolCalls    = "tool_calls"
)

// destinationClass is the class of an address that a program wanted to reach.
func destinationClass(a netip.Addr) string { return string(egress.Floor{}.Classify(a)) }

// safety are the counters behind SecurityStats; those of a Runtime guard them.
type safety SecurityStats

func bump(m *map[string]uint64, key string, n uint64) {
	if n == 0 {
		return
	}
	if *m == nil {
		*m = map[string]uint64{}
	}
	(*m)[key] += n
}

// ended counts what a run that has ended did.
func (s *safety) ended(res Result) {
	for class, n := range res.Blocked.ByClass {
		bump(&s.Attempts, class, uint64(n))
	}
	if res.Calls == nil {
		return
	}
	for _, c := range res.Calls.Calls {
		if c.State != bridge.Done || c.Ran == 0 {
			continue
		}
		if s.CallTime == nil {
			s.CallTime = map[string]Histogram{}
		}
		h := s.CallTime[string(c.Via)]
		h.add(max(0, c.Wall-c.Waited-c.Ran))
		s.CallTime[string(c.Via)] = h
	}
}

// flows counts events of a network.
func (c *counters) flows(events []egress.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		c.safety.flow(e)
	}
}

// fullRule is what events say of flows that mode full allows.
const fullRule = "full"

func (s *safety) flow(e egress.Event) {
	switch {
	case e.Type == egress.EventOpen && e.Again: // it is counted
	case e.Type == egress.EventOpen:
		switch e.Rule {
		case "":
			s.Ungranted++
		case fullRule:
			s.Full++
		default:
			s.Granted++
		}
	case e.Type == egress.EventDeny:
		bump(&s.Attempts, flowClass(e), 1)
	case e.Type == egress.EventFlood:
		bump(&s.Attempts, flowClass(e), e.Count)
	}
}

func flowClass(e egress.Event) string {
	switch {
	case e.Class != "":
		return string(e.Class)
	case e.Name == "" && e.Dst.IsValid():
		return destinationClass(e.Dst.Addr())
	}
	return className
}

// Security says what was refused, let out and recorded so far.
func (r *Runtime) Security() SecurityStats {
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.safety.stats()
}

func (s *safety) stats() SecurityStats {
	out := SecurityStats(*s)
	out.Attempts, out.Recorded, out.Counted = maps.Clone(s.Attempts), maps.Clone(s.Recorded), maps.Clone(s.Counted)
	out.CallTime = maps.Clone(s.CallTime)
	for via, h := range out.CallTime {
		h.Buckets = slices.Clone(h.Buckets)
		out.CallTime[via] = h
	}
	return out
}

// tally compares a log that has ended with what was counted beside it: refused
// calls by who refused them, tool calls by the broker. What has no record of
// its own is recorded if its exact count is.
func (r *record) tally(b *box) {
	blocked, unrouted := b.blocked(), int64(0)
	if n, err := b.noRoute(); err == nil {
		unrouted = n
	}
	recorded := map[string]int64{refusedCalls: r.counts["socket.blocked"] + r.counts["syscall.denied"]}
	if r.counts["blocked.counts"] > 0 {
		recorded[refusedCalls] += blocked.Folded
	}
	counted := map[string]int64{refusedCalls: blocked.Total}
	if s := b.calls.summary(); s != nil {
		counted[toolCalls] = s.Done + s.Refused + s.Unknown
		r.mu.Lock()
		recorded[toolCalls] = r.counts["call.finished"] + r.counts["call.discarded"] - r.twice + r.counts["call.refused"]
		r.mu.Unlock()
		if r.counts["bridge.totals"] > 0 {
			recorded[toolCalls] += s.Folded
		}
	}
	c := &b.runtime.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	bump(&c.safety.Attempts, classUnrouted, uint64(unrouted))
	if !r.logged {
		return
	}
	for what, n := range counted {
		bump(&c.safety.Counted, what, uint64(n))
		bump(&c.safety.Recorded, what, uint64(recorded[what]))
	}
}
