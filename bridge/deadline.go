package bridge

import (
	"context"
	"sync/atomic"
	"time"
)

// callContext is the context of one call. Its deadline is the call's, kept by
// the broker's one alarm: a timer of each call's own would cost a call that
// does nothing a tenth of its time. A context derived from it that ends with
// it has Err Canceled and the deadline as its Cause.
type callContext struct {
	context.Context // ends with the call, the caller or the broker
	end             context.CancelCauseFunc
	deadline        time.Time // zero before the tool may run
	late            atomic.Bool
}

func newCallContext(parent context.Context) *callContext {
	c := &callContext{}
	c.Context, c.end = context.WithCancelCause(parent)
	return c
}

// Deadline is when the tool must have returned.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Err is DeadlineExceeded if that is why the context has ended.
func (c *callContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.late.Load() {
		return context.DeadlineExceeded
	}
	return err
}

// expire ends the context because its time is over.
func (c *callContext) expire() {
	c.late.Store(true)
	c.end(context.DeadlineExceeded)
}

// alarm wakes a broker at the earliest deadline of its calls, or before: a
// call that ends leaves it set, and the next one finds it so.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero if it is not set
}

// set makes the alarm ring at t at the latest.
func (a *alarm) set(t time.Time, ring func()) {
	if !a.at.IsZero() && !t.Before(a.at) {
		return
	}
	a.at = t
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(t), ring)
		return
	}
	a.timer.Reset(time.Until(t))
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// ring answers for tools that have not returned in time.
func (b *Broker) ring() {
	var late []*call
	b.mu.Lock()
	b.alarm.at = time.Time{}
	now := time.Now()
	for c := range b.live {
		switch at := c.ctx.deadline; {
		case at.IsZero() || c.back:
		case at.After(now):
			b.alarm.set(at, b.ring)
		default:
			late = append(late, c)
		}
	}
	b.mu.Unlock()
	for _, c := range late {
		c.ctx.expire()
		c.settle(outcome{state: Done, err: fault(CodeTimeout, c.limit())})
	}
}
