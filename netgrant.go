package isolate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/plan"
)

// netState is the network policy in force, and when its clocks started.
type netState struct {
	mu      sync.Mutex // held while it changes
	policy  Net
	granted time.Time
}

// setNet puts a policy in force whose clocks start now.
func (b *box) setNet(ctx context.Context, n Net) error {
	b.net.mu.Lock()
	defer b.net.mu.Unlock()
	return b.changeNet(ctx, n, time.Now())
}

// changeNet puts a policy in force. The caller holds net.mu.
func (b *box) changeNet(ctx context.Context, n Net, granted time.Time) error {
	if err := b.network.Set(ctx, n, granted); err != nil {
		return err
	}
	b.net.policy, b.net.granted = n, granted
	return nil
}

// SetNet puts another policy in force, for a sandbox that was made with a
// network: flows that it does not allow are cut, its clocks start now.
func (s *Sandbox) SetNet(ctx context.Context, n Net) error {
	if err := s.box.checkNet(n); err != nil {
		return err
	}
	return s.box.setNet(ctx, n)
}

// checkNet says why a policy cannot be put in force.
func (b *box) checkNet(n Net) error {
	if b.network == nil {
		return &plan.Refusal{Problems: []plan.Problem{{What: "cannot set the network policy", Rule: "the sandbox was made without a network", Remedy: "make it with mode restricted"}}}
	}
	r := &plan.Refusal{}
	for _, x := range n.Check() {
		r.Problems = append(r.Problems, plan.Problem{What: x.What, Rule: x.Field, Remedy: x.Hint})
	}
	for _, p := range n.HostPorts {
		if !slices.Contains(b.plan.NetPolicy.HostPorts, p) {
			r.Problems = append(r.Problems, plan.Problem{What: fmt.Sprintf("cannot grant port %d of this machine", p), Rule: "the sandbox was made without it, and this consent is given when it is made", Remedy: fmt.Sprintf("make it with host-ports = [%d]", p)})
		}
	}
	if n.IPv6 && !b.plan.HasIPv6() {
		r.Problems = append(r.Problems, plan.Problem{What: "cannot give the sandbox IPv6", Rule: "it was made without", Remedy: "make it with ipv6 = true"})
	}
	if len(r.Problems) == 0 {
		return nil
	}
	return r
}

// MaxGrant is the longest time that a grant may hold.
const MaxGrant = 24 * time.Hour

// maxReason bounds the reason of a grant, in bytes.
const maxReason = 256

// NetGrant opens the network of a sandbox for a time.
type NetGrant struct {
	// Rules are what it allows, in addition. Required. Their own times count
	// from now on, and hold no longer than For.
	Rules []NetRule
	// For is how long. Required; at most MaxGrant.
	For time.Duration
	// Reason is why, for the log. Required: printable, at most 256 bytes.
	Reason string
}

// Grant adds rules to the policy in force until their time is over; what is
// open through them is cut then. The clocks of the other rules go on. The grant
// is recorded before it holds. It returns when the grant ends.
func (s *Sandbox) Grant(ctx context.Context, g NetGrant) (until time.Time, err error) {
	if err := g.check(); err != nil {
		return until, err
	}
	b := s.box
	b.net.mu.Lock()
	defer b.net.mu.Unlock()
	now := time.Now()
	until = now.Add(g.For)
	n := b.net.policy
	// what is over need not be kept
	n.Rules = slices.DeleteFunc(slices.Clone(n.Rules), func(r NetRule) bool { return !r.Until.IsZero() && !r.Until.After(now) })
	n.Rules = append(n.Rules, g.until(now)...)
	if err := b.checkNet(n); err != nil {
		return until, err
	}
	if err := b.record.append(g.event()); err != nil {
		return until, err
	}
	return until, b.changeNet(ctx, n, b.net.granted)
}

func (g NetGrant) check() error {
	var r plan.Refusal
	add := func(what, rule, remedy string) {
		r.Problems = append(r.Problems, plan.Problem{What: what, Rule: rule, Remedy: remedy})
	}
	if len(g.Rules) == 0 {
		add("cannot grant nothing", "a grant names what it allows", "name a host")
	}
	if g.For <= 0 || g.For > MaxGrant {
		add(fmt.Sprintf("cannot grant for %s", g.For), fmt.Sprintf("a grant ends, after %s at most", MaxGrant), "give a time, such as 10m")
	}
	switch {
	case strings.TrimSpace(g.Reason) == "":
		add("cannot grant without a reason", "the log is to say why", "give a reason: --reason TEXT, NetGrant.Reason in Go")
	case len(g.Reason) > maxReason || strings.ContainsFunc(g.Reason, func(c rune) bool { return !unicode.IsPrint(c) }):
		add("cannot record the reason", fmt.Sprintf("it has more than %d bytes, or characters that cannot be printed", maxReason), "write a shorter one, in one line")
	}
	if len(r.Problems) > 0 {
		return &r
	}
	return nil
}

// until are the rules with the time at which they end.
func (g NetGrant) until(now time.Time) []NetRule {
	out := slices.Clone(g.Rules)
	for i := range out {
		r := &out[i]
		d := g.For
		if r.For > 0 {
			d = min(d, r.For)
		}
		if end := now.Add(d); r.Until.IsZero() || end.Before(r.Until) {
			r.Until = end
		}
		r.For, r.Reason = 0, g.Reason
	}
	return out
}

func (g NetGrant) event() audit.Event {
	e := audit.NetGrant{For: g.For.Milliseconds(), Reason: g.Reason}
	for _, r := range g.Rules {
		e.Rules = append(e.Rules, r.String())
	}
	return e
}

// NetSummary is what happened on the sandbox's network; nil if it has none.
func (s *Sandbox) NetSummary() *NetSummary { return s.box.netSummary() }
