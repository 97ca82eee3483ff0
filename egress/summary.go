package egress

import (
	"fmt"
	"slices"
	"strings"
)

// Summary is what happened on a sandbox's network during a run.
type Summary struct {
	Mode string `json:"mode"`
	// Flows is how many connections were opened, Denied how many attempts and
	// look-ups were not.
	Flows    uint64 `json:"flows"`
	Denied   uint64 `json:"denied"`
	Requests uint64 `json:"requests,omitempty"`
	BytesIn  int64  `json:"bytes_in"`
	BytesOut int64  `json:"bytes_out"`
	// Denials are the different ones, the first 64, each with its count.
	Denials []Denial `json:"denials,omitempty"`
	// Names are the names that flows were let out to, the first 64.
	Names []string `json:"names,omitempty"`
	// Failed is why the network ended before the run did; empty if it did not.
	Failed string `json:"failed,omitempty"`
}

// Denial is one kind of denied attempt.
type Denial struct {
	Host   string `json:"host"`
	Port   uint16 `json:"port,omitempty"`
	Proto  string `json:"proto,omitempty"`
	Reason Reason `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Count  uint64 `json:"count"`
}

// maxListed bounds the lists of a Summary.
const maxListed = 64

// Add takes an event into the summary.
func (s *Summary) Add(e Event) {
	switch {
	case e.Type == EventOpen && e.Again:
	case e.Type == EventOpen:
		s.Flows++
		if host := e.target(); !slices.Contains(s.Names, host) && len(s.Names) < maxListed {
			s.Names = append(s.Names, host)
		}
	case e.Type == EventClose:
		s.BytesIn += e.BytesIn
		s.BytesOut += e.BytesOut
		if e.Reason == ReasonDialFailed {
			s.Flows--
		}
		if e.Reason == ReasonRuleExpired || e.Reason == ReasonPolicyRevoked || e.Reason == ReasonRuleExhausted {
			s.deny(e, 1)
		}
	case e.Type == EventRequest:
		s.Requests++
		if e.Verdict == Refuse {
			s.deny(e, 1)
		}
	case e.Type == EventFlood:
		s.deny(e, e.Count)
	case e.Verdict == Refuse:
		s.deny(e, 1)
	}
}

// target is the host of an event as a person would name it.
func (e Event) target() string {
	if e.Name != "" {
		return e.Name
	}
	if e.Dst.IsValid() {
		return e.Dst.Addr().String()
	}
	return e.Host
}

func (s *Summary) deny(e Event, n uint64) {
	s.Denied += n
	for i := range s.Denials {
		d := &s.Denials[i]
		if d.Host == e.target() && d.Port == e.Port && d.Reason == e.Reason && d.Proto == e.Proto {
			d.Count += n
			return
		}
	}
	if len(s.Denials) < maxListed {
		s.Denials = append(s.Denials, Denial{Host: e.target(), Port: e.Port, Proto: e.Proto, Reason: e.Reason, Rule: e.Rule, Hint: e.Hint, Count: n})
	}
}

// Text is a denial for a person: what, why, and what would allow it.
func (d Denial) Text() string {
	var b strings.Builder
	b.WriteString(d.Host)
	if d.Port != 0 {
		fmt.Fprintf(&b, ":%d", d.Port)
	}
	fmt.Fprintf(&b, ": %s (%s", d.Reason.Text(), d.Reason)
	if d.Rule != "" {
		fmt.Fprintf(&b, ", rule %s", d.Rule)
	}
	b.WriteString(")")
	if d.Count > 1 {
		fmt.Fprintf(&b, ", %d times", d.Count)
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "; to allow it: %s", d.Hint)
	}
	return b.String()
}
