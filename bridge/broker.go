package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Request is one decoded request, whatever its transport.
type Request struct {
	ID   string
	Tool string
	// Args is a JSON object; it is read as strictly as a request file.
	Args json.RawMessage
	Via  Via
	// Bytes and Digest are those of the request as it came.
	Bytes  int64
	Digest string
	Files  Files // never nil
}

// Answer is what became of a request.
type Answer struct {
	Seq   int64 // 0 if the call was never admitted
	Tool  string
	Value json.RawMessage // one JSON value; nil if Err is set
	Err   *Error
}

// closeGrace is how long Close waits for tools whose context has ended: long
// enough for one that listens to it, too short to hold up the end of a run.
const closeGrace = 100 * time.Millisecond

// Broker admits and runs the calls of one sandbox, whatever their transport.
// It is safe for concurrent use.
type Broker struct {
	set     *Set
	options Options
	start   time.Time
	ctx     context.Context // ends with the broker
	cancel  context.CancelFunc
	slots   chan struct{} // one for each tool that may run

	mu     sync.Mutex
	closed bool
	quiet  chan struct{} // closed once the broker is and nothing runs any more
	active int           // goroutines of calls
	late   int           // tools that run on after their call was answered
	inside int           // calls admitted and not answered
	live   map[*call]struct{}
	alarm  alarm // of their deadlines
	seen   seenIDs
	tools  map[*entry]*usage

	seq       int64
	requests  int64 // bytes so far
	responses int64
	reported  int64           // refusals that went to the journal
	denials   []time.Duration // when, by elapsed
	open      int             // questions that are
	openSince time.Time
	stood     time.Duration // how long there were any, before that
	sum       Summary
	records   []*Record
}

// usage is what one tool was called for.
type usage struct {
	calls  int
	grants int           // calls that an earlier approval covers
	asking chan struct{} // holds a token while a question about the tool is open
}

// NewBroker makes a broker. A nil set has no tools. Close ends it.
func NewBroker(set *Set, o Options) *Broker {
	if set == nil {
		set = &Set{}
	}
	o = o.filled()
	b := &Broker{
		set: set, options: o, start: time.Now(),
		slots: make(chan struct{}, o.Parallel), quiet: make(chan struct{}),
		live: map[*call]struct{}{}, tools: map[*entry]*usage{},
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

func (o Options) filled() Options {
	o.MaxCalls = cmp.Or(o.MaxCalls, DefaultMaxCalls)
	o.Parallel = max(1, cmp.Or(o.Parallel, DefaultParallel))
	o.MaxPending = max(0, cmp.Or(o.MaxPending, DefaultMaxPending))
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.RequestBytes = cmp.Or(o.RequestBytes, DefaultRequestBytes)
	o.ResponseBytes = cmp.Or(o.ResponseBytes, DefaultResponseBytes)
	o.TotalRequestBytes = cmp.Or(o.TotalRequestBytes, DefaultTotalRequestBytes)
	o.TotalResponseBytes = cmp.Or(o.TotalResponseBytes, DefaultTotalResponseBytes)
	o.ApprovalWait = cmp.Or(o.ApprovalWait, DefaultApprovalWait)
	return o
}

// Set is the tools of the broker.
func (b *Broker) Set() *Set { return b.set }

// Do admits and runs one call and returns its answer. It returns at once when
// the broker is closed or ctx ends; the tool's own context ends then, too.
func (b *Broker) Do(ctx context.Context, r Request) Answer {
	req := incoming{Request: r}
	v, err := parse(r.Args)
	args, ok := v.(map[string]any)
	switch {
	case err != nil:
		req.fault = fault(CodeBadJSON, err.Error())
	case !ok:
		req.fault = fault(CodeBadRequest, "the arguments are no object")
	}
	if len(r.Tool) > maxToolName {
		// No tool has such a name, and a record must not hold a megabyte.
		req.Tool, req.fault = "", fault(CodeUnknownTool, "the name is too long")
	}
	req.args = args
	answers := make(chan Answer, 1)
	c := b.admit(req, func(a Answer) { answers <- a })
	if c != nil {
		defer context.AfterFunc(ctx, c.abandon)()
		b.begin(c)
	}
	return <-answers
}

// incoming is a request with what its transport found out.
type incoming struct {
	Request
	args  map[string]any
	fault *Error // why it cannot be served; nil if it may be
}

// admit takes a request up to the point where somebody must wait for it. A
// refusal is answered here, before it returns nil; otherwise begin or run must
// follow.
func (b *Broker) admit(r incoming, deliver func(Answer)) *call {
	c := &call{b: b, req: r, deliver: deliver, rec: &Record{
		ID: r.ID, Tool: r.Tool, Via: r.Via, State: Received, Received: time.Since(b.start),
		RequestBytes: r.Bytes, RequestDigest: r.Digest,
	}}
	c.tool = b.set.byName[r.Tool]
	if c.tool != nil {
		c.rec.Source = c.tool.Source
	}
	err := b.count(c)
	if err == nil && c.tool == nil {
		err = b.set.unknownTool(r.Tool)
	}
	if err == nil {
		c.args, err = c.tool.input.check(r.args)
	}
	if err == nil {
		err = b.enter(c)
	}
	if err != nil {
		c.settle(outcome{state: Refused, err: err})
		return nil
	}
	return c
}

// count is where a call counts, whatever becomes of it: a program cannot loop
// on calls that fail.
func (b *Broker) count(c *call) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) < MaxRecords {
		b.records = append(b.records, c.rec)
	} else {
		b.sum.Omitted++
	}
	if b.closed {
		return fault(CodeClosed)
	}
	if b.options.MaxCalls > 0 && b.sum.Accepted >= int64(b.options.MaxCalls) {
		return fault(CodeCalls, b.options.MaxCalls)
	}
	b.sum.Accepted++
	b.requests += c.req.Bytes
	switch {
	case !b.seen.add(c.req.ID):
		return fault(CodeDuplicateID)
	case b.requests > b.options.TotalRequestBytes:
		return fault(CodeTotalBytes, b.options.TotalRequestBytes, "requests")
	}
	return c.req.fault
}

// spent tells that no further request needs to be read: it will be refused.
func (b *Broker) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed || b.requests > b.options.TotalRequestBytes
}

// flooded tells that a program has asked in vain so often that it hardly
// means well.
func (b *Broker) flooded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum.Refused > floodAfter
}

// enter holds a call of a known tool with good arguments against the limits.
func (b *Broker) enter(c *call) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.tools[c.tool]
	if u == nil {
		u = &usage{asking: make(chan struct{}, 1)}
		b.tools[c.tool] = u
	}
	switch {
	case b.closed:
		return fault(CodeClosed)
	case c.tool.MaxCalls > 0 && u.calls >= c.tool.MaxCalls:
		return fault(CodeToolCalls, c.tool.MaxCalls)
	case b.responses >= b.options.TotalResponseBytes:
		return fault(CodeTotalBytes, b.options.TotalResponseBytes, "results")
	case b.inside >= b.options.Parallel+b.options.MaxPending || b.late > b.options.MaxPending:
		return fault(CodePending, b.options.MaxPending)
	}
	u.calls++
	b.inside++
	b.seq++
	b.active++
	c.rec.Seq = b.seq
	c.use = u
	c.ctx = newCallContext(b.ctx)
	b.live[c] = struct{}{}
	return nil
}

// begin lets an admitted call run in a goroutine that Close waits for.
func (b *Broker) begin(c *call) {
	go b.run(c)
}

// run is begin in the goroutine of the caller.
func (b *Broker) run(c *call) {
	defer b.leave()
	c.run()
}

// leave is the end of a goroutine of a call.
func (b *Broker) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active--
	if b.closed && b.active == 0 {
		close(b.quiet)
	}
}

// take counts n bytes against the total of the results; false if they would
// go over it.
func (b *Broker) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.responses+n > b.options.TotalResponseBytes {
		return false
	}
	b.responses += n
	return true
}

// ignore counts files that are no requests.
func (b *Broker) ignore(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum.Ignored += n
}

// Summary is what has been remembered so far.
func (b *Broker) Summary() Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sum
	s.Folded = max(0, b.reported-MaxRecords)
	s.Calls = make([]Record, len(b.records))
	for i, r := range b.records {
		s.Calls[i] = *r
	}
	return s
}

// Close cancels what runs and waits a little for it. Calls that go on are
// recorded as Unknown, and as Discarded once they end. It is idempotent.
func (b *Broker) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.alarm.stop()
		if b.active == 0 {
			close(b.quiet)
		}
	}
	open := make([]*call, 0, len(b.live))
	for c := range b.live {
		open = append(open, c)
	}
	b.mu.Unlock()
	slices.SortFunc(open, func(x, y *call) int { return cmp.Compare(x.rec.Seq, y.rec.Seq) })
	b.cancel()
	for _, c := range open {
		c.abandon()
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-b.quiet:
	case <-grace.C:
	}
}
