package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// approve asks about the call where its tool wants that. Nil means that it may
// run.
func (c *call) approve() *outcome {
	switch c.tool.Approve {
	case ApproveNever:
		return nil
	case ApproveWrites:
		if c.tool.Effect == ReadOnly {
			return nil
		}
	}
	if c.b.options.Approver == nil {
		return c.denied("nobody", "", fault(CodeNobodyToAsk))
	}
	// One question about a tool at a time: an answer for N calls then covers
	// those that wait, and denials stop them.
	c.mark(func() {
		if !c.settled {
			c.rec.State = Waiting
		}
	})
	select {
	case c.use.asking <- struct{}{}:
		defer func() { <-c.use.asking }()
	case <-c.ctx.Done():
		return &outcome{state: Refused, err: fault(CodeClosed)}
	}
	granted, denials := c.b.standing(c.use)
	switch {
	case granted:
		c.approved(Approved{Verdict: Allow, By: "grant"})
		return nil
	case denials >= DenialLimit:
		return c.denied("denial-limit", "", fault(CodeDenialLimit, denials, int(DenialWindow.Seconds())))
	}
	return c.ask()
}

// standing tells whether an earlier answer covers a call, and uses it up, and
// how many calls were denied of late.
func (b *Broker) standing(u *usage) (granted bool, denials int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.denials) > 0 && b.elapsed()-b.denials[0] > DenialWindow {
		b.denials = b.denials[1:]
	}
	if u.grants > 0 {
		u.grants--
		return true, 0
	}
	return false, len(b.denials)
}

// hold stops the time that counts for DenialWindow until release is called.
// Else questions that nobody answers, of which each takes longer than a denial
// counts, would never be too many: a program could keep its clock stopped for
// as many of them as it may make calls.
func (b *Broker) hold() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open++; b.open == 1 {
		b.openSince = time.Now()
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open--; b.open == 0 {
			b.stood += time.Since(b.openSince)
		}
	}
}

// elapsed is the time of the run without that in which somebody was asked. The
// caller holds the lock.
func (b *Broker) elapsed() time.Duration {
	now := time.Now()
	if b.open > 0 {
		now = b.openSince
	}
	return now.Sub(b.start) - b.stood
}

// verdict is what an Approver answered.
type verdict struct {
	decision Decision
	err      error
}

// ask puts the question and waits for the answer while the run's clock stands.
func (c *call) ask() *outcome {
	wait := c.b.options.ApprovalWait
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	defer c.b.hold()()
	if hold := c.b.options.Hold; hold != nil {
		defer hold()()
	}
	begin := time.Now()
	v, answered := c.question(ctx)
	c.mark(func() { c.rec.Waited += time.Since(begin) })
	switch d := v.decision; {
	case !answered && c.ctx.Err() != nil:
		return &outcome{state: Refused, err: fault(CodeClosed)}
	case !answered:
		return c.denied("timeout", "", fault(CodeApprovalWait, wait))
	case v.err != nil:
		end := c.denied(d.By, d.Reason, fault(CodeDenied))
		end.detail = "cannot get a decision: " + v.err.Error()
		return end
	case d.Verdict != Allow:
		return c.denied(d.By, d.Reason, deniedBecause(d.Reason))
	default:
		return c.allowed(d)
	}
}

// question calls the Approver, which may panic and may not return.
func (c *call) question(ctx context.Context) (v verdict, answered bool) {
	q := Question{
		Tool: c.tool.Name, Description: c.tool.Description, Source: c.tool.Source,
		ID: c.req.ID, Seq: c.rec.Seq, Args: c.args,
	}
	answers := make(chan verdict, 1)
	c.mark(func() { c.b.active++ })
	go func() {
		defer c.b.leave()
		v := verdict{err: fmt.Errorf("the approver ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				v = verdict{err: fmt.Errorf("the approver crashed: %v", p)}
			}
			answers <- v
		}()
		d, err := c.b.options.Approver.Approve(ctx, q)
		v = verdict{d, err}
	}()
	select {
	case v = <-answers:
		// An approver that gives up because its time is over has not answered.
		return v, v.err == nil || ctx.Err() == nil
	case <-ctx.Done():
		return verdict{}, false
	}
}

// allowed takes over edited arguments, which must pass the schema again.
func (c *call) allowed(d Decision) *outcome {
	a := Approved{Verdict: Allow, By: d.By, Reason: cut(d.Reason, reasonMax)}
	if d.Args != nil {
		canonical, err := c.edited(d.Args)
		if err != nil {
			c.approved(a)
			return &outcome{state: Refused, err: err, detail: "the arguments as they were edited do not fit"}
		}
		// Who changes what a call says has not allowed others as they are.
		a.Edited, d.For = canonical, 1
		c.mark(func() { c.args = canonical })
	}
	c.mark(func() { c.use.grants += max(d.For-1, 0) })
	c.approved(a)
	return nil
}

func (c *call) edited(args json.RawMessage) (json.RawMessage, *Error) {
	v, err := parse(args)
	if err != nil {
		return nil, fault(CodeBadJSON, err.Error())
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault(CodeBadRequest, "the edited arguments are no object")
	}
	return c.tool.input.check(m)
}

// denied records who said no. Only what somebody decided, or failed to decide
// in time, counts against further questions.
func (c *call) denied(by, reason string, e *Error) *outcome {
	c.approved(Approved{Verdict: Deny, By: by, Reason: cut(reason, reasonMax)})
	if e.Code == CodeDenied || e.Code == CodeApprovalWait {
		c.mark(func() { c.b.denials = append(c.b.denials, c.b.elapsed()) })
	}
	return &outcome{state: Refused, err: e}
}

func (c *call) approved(a Approved) {
	c.mark(func() { c.rec.Approval = &a })
}
