package egress

import (
	"sync"
	"time"
)

// Judge applies generations to living flows: it counts uses, and ends what a
// later generation, or the end of a rule's time, no longer allows. It is safe
// for concurrent use. Times are the caller's.
type Judge struct {
	maxFlows int

	mu    sync.Mutex
	gen   *Generation
	uses  Uses
	live  map[*Live]struct{}
	timer *time.Timer
	now   func() time.Time
}

// DefaultMaxFlows is how many connections of a sandbox may be open at once.
const DefaultMaxFlows = 1024

// Live is a flow that was allowed and goes on.
type Live struct {
	judge *Judge
	cut   func(Reason)

	// Guarded by judge.mu.
	flow    Flow
	account account
	ended   bool
}

// NewJudge makes a judge that denies everything until Set. maxFlows of zero
// means DefaultMaxFlows; now is the clock, nil means time.Now.
func NewJudge(maxFlows int, now func() time.Time) *Judge {
	if maxFlows == 0 {
		maxFlows = DefaultMaxFlows
	}
	if now == nil {
		now = time.Now
	}
	return &Judge{maxFlows: maxFlows, uses: Uses{}, live: map[*Live]struct{}{}, now: now}
}

// Set puts a generation in force and judges every living flow once.
func (j *Judge) Set(g *Generation) {
	j.mu.Lock()
	j.gen = g
	j.mu.Unlock()
	j.review()
}

// review judges the living flows and sets the clock for the next end of a rule.
func (j *Judge) review() {
	j.mu.Lock()
	if j.gen == nil { // stopped meanwhile
		j.mu.Unlock()
		return
	}
	at := j.now()
	type end struct {
		cut    func(Reason)
		reason Reason
	}
	var ends []end
	for l := range j.live {
		d := j.gen.Decide(at, nil, l.flow)
		if d.Allowed() {
			l.account = d.account
			continue
		}
		reason := ReasonPolicyRevoked
		if d.Reason == ReasonRuleExpired {
			reason = d.Reason
		}
		l.ended = true
		delete(j.live, l)
		ends = append(ends, end{l.cut, reason})
	}
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if next := j.gen.Next(at); !next.IsZero() {
		j.timer = time.AfterFunc(next.Sub(at)+time.Millisecond, j.review)
	}
	j.mu.Unlock()
	for _, e := range ends {
		e.cut(e.reason)
	}
}

// Current is the generation in force; nil before Set.
func (j *Judge) Current() *Generation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.gen
}

// Decide judges a flow without opening it.
func (j *Judge) Decide(f Flow) (Decision, uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gen == nil {
		return refuse(ReasonStopped), 0
	}
	return j.gen.Decide(j.now(), j.uses, f), j.gen.Number
}

// DecideRequest judges an HTTP request on a flow.
func (j *Judge) DecideRequest(f Flow, q Request) Decision {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gen == nil {
		return refuse(ReasonStopped)
	}
	return j.gen.DecideRequest(j.now(), f, q)
}

// Open judges a flow and counts it as living. cut is called at most once, from
// another goroutine, when it has to end; not after Close.
func (j *Judge) Open(f Flow, cut func(Reason)) (*Live, Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gen == nil {
		return nil, refuse(ReasonStopped)
	}
	d := j.gen.Decide(j.now(), j.uses, f)
	if !d.Allowed() {
		return nil, d
	}
	if len(j.live) >= j.maxFlows {
		d.Verdict, d.Reason = Refuse, ReasonLimitFlows
		return nil, d
	}
	u := j.uses[d.account]
	u.Flows++
	j.uses[d.account] = u
	l := &Live{judge: j, cut: cut, flow: f, account: d.account}
	j.live[l] = struct{}{}
	return l, d
}

// Refine judges a living flow of which more is known. A flow that is denied is
// no longer living.
func (l *Live) Refine(f Flow) Decision {
	j := l.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.ended || j.gen == nil {
		return refuse(ReasonPolicyRevoked)
	}
	d := j.gen.Decide(j.now(), nil, f)
	if !d.Allowed() {
		l.ended = true
		delete(j.live, l)
		return d
	}
	l.flow, l.account = f, d.account
	return d
}

// Sent counts bytes that the flow sends out. False means that its rule has no
// more to give, or that the flow has ended.
func (l *Live) Sent(n int64) bool {
	j := l.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gen == nil || l.ended {
		return false
	}
	u := j.uses[l.account]
	u.BytesOut += n
	j.uses[l.account] = u
	for i := range j.gen.rules {
		if r := &j.gen.rules[i]; r.account == l.account && r.MaxBytesOut > 0 {
			return u.BytesOut <= r.MaxBytesOut
		}
	}
	return true
}

// Close ends a flow's life. It is idempotent.
func (l *Live) Close() {
	l.judge.mu.Lock()
	defer l.judge.mu.Unlock()
	l.ended = true
	delete(l.judge.live, l)
}

// Living is how many flows live.
func (j *Judge) Living() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.live)
}

// Stop cuts every flow and denies all others.
func (j *Judge) Stop() {
	j.mu.Lock()
	j.gen = nil
	if j.timer != nil {
		j.timer.Stop()
	}
	var cuts []func(Reason)
	for l := range j.live {
		l.ended = true
		delete(j.live, l)
		cuts = append(cuts, l.cut)
	}
	j.mu.Unlock()
	for _, c := range cuts {
		c(ReasonStopped)
	}
}
