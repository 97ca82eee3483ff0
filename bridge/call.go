package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/isolate-run/isolate/internal/strictjson"
)

// call is one call from its admission to its answer. It is answered exactly
// once, by whoever comes first: its tool, its time limit, or the end of the
// run. What comes later is thrown away.
type call struct {
	b       *Broker
	req     incoming
	deliver func(Answer) // called once
	tool    *entry
	use     *usage
	ctx     *callContext

	took time.Duration // the tool's; of the goroutine that runs it

	// Under Broker.mu.
	args    json.RawMessage // canonical; an approval may change them
	rec     *Record
	settled bool
	ran     bool // the tool was begun
	running bool // and what it returned is not judged yet
	back    bool // it has returned: its deadline is nobody's concern any more
	slot    bool // it holds one of Broker.slots
}

// outcome is how a call ends.
type outcome struct {
	state  State // empty for the end of the caller or broker: see settle
	value  json.RawMessage
	err    *Error
	detail string // for people on the host
	// returned tells that the tool is over, ran how long it took.
	returned bool
	ran      time.Duration
}

// run takes an admitted call through approval, the wait for a slot, the log
// and the tool.
func (c *call) run() {
	defer c.ctx.end(nil)
	if c.over() {
		return
	}
	if end := c.approve(); end != nil {
		c.settle(*end)
		return
	}
	select {
	case c.b.slots <- struct{}{}:
	case <-c.ctx.Done():
		c.abandon()
		return
	}
	open := false
	c.mark(func() {
		open = !c.settled
		c.slot = open
		sum := sha256.Sum256(c.args)
		c.rec.ArgsDigest = hex.EncodeToString(sum[:])
	})
	if !open {
		<-c.b.slots
		return
	}
	if err := c.accepted(); err != nil {
		c.settle(outcome{state: Refused, err: fault(CodeLog), detail: "cannot record the call: " + err.Error()})
		return
	}
	if !c.start() {
		return
	}
	c.invoke()
}

// limit is how long the tool may run.
func (c *call) limit() time.Duration {
	return cmp.Or(c.tool.Timeout, c.b.options.Timeout)
}

// mark changes the state of the call.
func (c *call) mark(change func()) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	change()
}

// over tells that the call was answered.
func (c *call) over() (settled bool) {
	c.mark(func() { settled = c.settled })
	return settled
}

// start notes that the tool is about to run; false if the call is over.
func (c *call) start() bool {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.settled {
		return false
	}
	c.ran, c.running = true, true
	c.rec.State = Running
	c.ctx.deadline = time.Now().Add(c.limit())
	c.b.alarm.set(c.ctx.deadline, c.b.ring)
	return true
}

// accepted makes the call durable before it takes effect.
func (c *call) accepted() error {
	if c.b.options.Journal == nil {
		return nil
	}
	return c.b.options.Journal.Accepted(c.record())
}

// record is a copy of the record with the arguments.
func (c *call) record() (r Record) {
	c.mark(func() {
		r = *c.rec
		r.Args = c.args
	})
	return r
}

// invoke runs the tool in this goroutine, and sees to it that neither a panic
// nor runtime.Goexit in it goes any further.
func (c *call) invoke() {
	var reply Reply
	var err error
	crash := "the tool ended its goroutine"
	began := time.Now()
	defer func() {
		c.took = time.Since(began)
		if v := recover(); v != nil {
			crash = "panic: " + fmt.Sprint(v)
		}
		c.returned(reply, err, crash)
	}()
	ctx := context.Context(c.ctx)
	if more := c.b.options.Context; more != nil {
		ctx = more(ctx, c.record())
	}
	reply, err = c.tool.Run(ctx, Call{ID: c.req.ID, Seq: c.rec.Seq, Args: c.args, Files: countedFiles{c.b, c.req.Files}})
	crash = ""
}

// abandon ends a call whose caller or broker has gone.
func (c *call) abandon() {
	c.ctx.end(nil)
	c.settle(outcome{err: fault(CodeClosed)})
}

// returned is what becomes of a tool's reply.
func (c *call) returned(reply Reply, err error, crash string) {
	open := false
	c.mark(func() { c.back, open = true, !c.settled })
	if !open || !c.settle(c.judge(reply, err, crash)) {
		c.discard()
	}
}

// judge says how a tool that has returned has done.
func (c *call) judge(reply Reply, err error, crash string) outcome {
	late := errors.Is(c.ctx.Err(), context.DeadlineExceeded)
	if c.ctx.Err() != nil && !late {
		// The run or the caller ended first, even if nobody said so yet.
		return outcome{state: Discarded, err: fault(CodeClosed), returned: true}
	}
	o := outcome{state: Done, returned: true, ran: c.took}
	var own *Error
	switch {
	case crash != "":
		o.err, o.detail = fault(CodePanic), crash
	case err != nil && late:
		o.err, o.detail = fault(CodeTimeout, c.limit()), err.Error()
	case errors.As(err, &own) && own != nil:
		o.err, o.detail = tamed(own), err.Error()
	case err != nil:
		o.err, o.detail = fault(CodeFailed), err.Error()
	default:
		o.value, o.err = c.result(c.ctx, reply.Value)
		if o.err != nil && o.err.Code == CodeBadResult {
			o.detail = o.err.Message + "; it was " + excerpt(reply.Value)
		}
	}
	return o
}

// discard throws away what a tool returned after its call was answered, and
// records that if the run was over.
func (c *call) discard() {
	report := false
	c.mark(func() {
		c.running = false
		c.b.late--
		if c.rec.State == Unknown {
			c.rec.State = Discarded
			report = c.b.options.Journal != nil
		}
	})
	if report {
		// There is nobody left to tell, and nothing left to stop.
		_ = c.b.options.Journal.Finished(c.record())
	}
}

// result checks a tool's value and puts it into a file if it is too big.
func (c *call) result(ctx context.Context, v json.RawMessage) (json.RawMessage, *Error) {
	if v == nil {
		v = json.RawMessage("null")
	}
	v, ok := oneLine(v)
	if !ok {
		return nil, fault(CodeBadResult, "is not one JSON value")
	}
	if name, twice := strictjson.Twice(v); twice {
		return nil, fault(CodeBadResult, "has the name "+shown(name)+" twice in one object")
	}
	if exceeds(v) {
		return nil, fault(CodeBadResult, "holds a number that is too big to be read")
	}
	if why := c.tool.output.misfit(v); why != "" {
		return nil, fault(CodeBadResult, why)
	}
	if int64(len(v)) <= c.b.options.ResponseBytes {
		if !c.b.take(int64(len(v))) {
			return nil, fault(CodeTotalBytes, c.b.options.TotalResponseBytes, "results")
		}
		return v, nil
	}
	if c.req.Files == nil {
		return nil, resultLost(len(v))
	}
	ref, err := (countedFiles{c.b, c.req.Files}).Put(ctx, "result.json", "application/json", bytes.NewReader(v))
	if err != nil {
		var own *Error
		if errors.As(err, &own) && own != nil {
			return nil, own
		}
		return nil, resultLost(len(v))
	}
	return nil, resultInFile(ref)
}

// settle answers the call; false if that has happened.
func (c *call) settle(o outcome) bool {
	b := c.b
	b.mu.Lock()
	if c.settled {
		b.mu.Unlock()
		return false
	}
	report := c.close(&o)
	b.mu.Unlock()
	if report {
		if err := b.options.Journal.Finished(c.record()); err != nil {
			o.value, o.err = nil, fault(CodeLog)
			c.mark(func() { c.unrecorded(err) })
		}
	}
	c.deliver(Answer{Seq: c.rec.Seq, Tool: c.rec.Tool, Value: o.value, Err: o.err})
	return true
}

// close does what settle does under the lock, and tells whether the end goes
// to the journal.
func (c *call) close(o *outcome) (report bool) {
	b := c.b
	c.settled = true
	report = b.options.Journal != nil
	if c.rec.Seq > 0 {
		delete(b.live, c)
		b.inside--
	} else if b.reported++; b.reported > MaxRecords {
		// A program may ask without end. What never ran is counted, but it
		// does not fill the log.
		report = false
	}
	switch {
	case o.state != "":
	case c.ran:
		o.state = Unknown
	default:
		o.state = Refused
	}
	if c.running && !o.returned {
		b.late++ // until discard
	}
	if c.slot {
		c.slot = false
		<-b.slots
	}
	c.fill(*o)
	return report
}

// unrecorded notes that the end of the call is not in the journal.
func (c *call) unrecorded(err error) {
	if c.rec.Class == "" && c.rec.State == Done {
		c.b.sum.Failed++
	}
	e := fault(CodeLog)
	c.rec.Class, c.rec.Code = e.Class, e.Code
	c.rec.Detail = cut("cannot record the end of the call: "+err.Error(), detailMax)
}

// fill completes the record and counts the call.
func (c *call) fill(o outcome) {
	r, sum := c.rec, &c.b.sum
	r.State, r.Detail = o.state, cut(o.detail, detailMax)
	r.Wall, r.Ran = time.Since(c.b.start)-r.Received, o.ran
	r.ResponseBytes = int64(len(o.value))
	if o.err != nil {
		r.Class, r.Code = o.err.Class, o.err.Code
	}
	switch o.state {
	case Done:
		sum.Done++
		if o.err != nil {
			sum.Failed++
		}
	case Refused:
		sum.Refused++
	case Unknown, Discarded:
		sum.Unknown++
	}
}
