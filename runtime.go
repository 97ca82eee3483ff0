package isolate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// Runtime builds sandboxes and keeps what makes them start fast. It is safe
// for concurrent use.
type Runtime struct {
	options Options
	base    *container.Base
	facts   plan.Facts
	queue   *queue        // rights to have a sandbox
	closing chan struct{} // closed by Close, which ends every run

	mu     sync.Mutex
	cells  map[string]*cell
	begun  *container.Blank // made ahead for the first cell; nil once taken
	plans  map[string]cachedPlan
	live   map[*box]bool // sandboxes in use
	closed bool
	calls  sync.WaitGroup // runs in progress; see enter
	behind sync.WaitGroup // tear-downs that go on after an answer
	torn   []error        // what went wrong in them, the first maxTorn
	idle   *time.Timer    // ends cells that nobody uses; nil while there is none

	counters counters

	watcher *bridge.Watcher // of all tool bridges; nil until the first

	unwatch func() // ends what Telemetry.Watch began; nil without one
}

// Defaults of Options.
const (
	defaultMaxSandboxes = 64
	defaultMaxWaiting   = 1024
	defaultMaxCells     = 8
	defaultCellIdle     = 5 * time.Minute
	defaultStopWait     = 5 * time.Second
	// planFresh is how long a plan of the host view is used before the host's
	// /etc is looked at again.
	planFresh = 10 * time.Second
	// maxPlans bounds the plans that are remembered.
	maxPlans = 64
	// maxTorn bounds the errors that are kept for Close; Stats counts them all.
	maxTorn = 16
)

type cachedPlan struct {
	plan  plan.Plan
	until time.Time
}

// Open prepares a Runtime: it checks the blocking guarantees of this machine,
// makes the run-time directory and removes what dead processes left there.
// The error of a machine that cannot give the guarantees is a *plan.Refusal.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	if !container.Entered() {
		return nil, errors.New("cannot open runtime: isolate.Init() was not called; call it as the first statement of main, and of TestMain")
	}
	if o.MaxSandboxes == 0 {
		o.MaxSandboxes = defaultMaxSandboxes
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = defaultMaxWaiting
	}
	if o.MaxCells == 0 {
		o.MaxCells = defaultMaxCells
	}
	if o.CellIdle == 0 {
		o.CellIdle = defaultCellIdle
	}
	if o.Spares == 0 {
		o.Spares = runtime.NumCPU()
	}
	if o.StopWait == 0 {
		o.StopWait = defaultStopWait
	}
	if o.Dir == "" {
		o.Dir = DefaultDir()
	}
	place, err := cgroup.Here()
	if err != nil {
		return nil, err
	}
	var waiting *container.Waiting
	var look plan.Look
	if o.Expect == OneCell {
		look = plan.LookAhead()
		if waiting, err = container.Ahead(place); err != nil {
			return nil, err
		}
	}
	checks, err := preflight(ctx, o.Dir)
	if err != nil {
		waiting.Close()
		return nil, refused(o.Audit, "", "", err)
	}
	base, err := container.Open(ctx, o.Dir, place)
	if err != nil {
		waiting.Close()
		return nil, err
	}
	var begun *container.Blank
	if o.Expect == OneCell {
		if begun, err = base.Begin(waiting); err != nil {
			return nil, errors.Join(err, base.Close())
		}
	}
	facts := gatherFacts(base, o, checks)
	facts.Host = look
	r := &Runtime{
		options: o, base: base, facts: facts, begun: begun,
		queue: newQueue(o.MaxSandboxes, o.MaxWaiting), closing: make(chan struct{}),
		cells: map[string]*cell{}, plans: map[string]cachedPlan{}, live: map[*box]bool{},
	}
	if o.Telemetry != nil {
		r.unwatch = o.Telemetry.Watch(r)
	}
	return r, nil
}

// DefaultDir is the run-time directory that Open uses if Options name none.
func DefaultDir() string {
	return container.DefaultDir(os.Getenv("XDG_RUNTIME_DIR"), os.Geteuid())
}

// Plan says what Run would do, without doing it. A policy that cannot be
// enforced here gives a *plan.Refusal.
func (r *Runtime) Plan(ctx context.Context, p Policy) (plan.Plan, error) {
	// A policy that names host files is resolved each time: they may change. So
	// is that of a program which runs one: nobody asks for it again.
	facts, usual := r.factsFor(ctx)
	if p.Rootfs != "" || len(p.ReadOnly) > 0 || r.options.Expect == OneCell {
		pl, err := plan.Resolve(p, facts)
		return weakened(pl), err
	}
	key, err := plan.Key(p)
	if err != nil {
		return plan.Resolve(p, facts) // says what is wrong with it
	}
	if !usual {
		key += fmt.Sprint(facts.Caller) // a key says itself where it ends
	}
	now := time.Now()
	r.mu.Lock()
	c, ok := r.plans[key]
	r.mu.Unlock()
	if ok && now.Before(c.until) {
		return c.plan, nil
	}
	pl, err := plan.Resolve(p, facts)
	if err != nil {
		return plan.Plan{}, err
	}
	pl = weakened(pl)
	r.mu.Lock()
	if len(r.plans) >= maxPlans {
		clear(r.plans)
	}
	r.plans[key] = cachedPlan{pl, now.Add(planFresh)}
	r.mu.Unlock()
	return pl, nil
}

// Run runs one program in a sandbox of its own.
func (r *Runtime) Run(ctx context.Context, p Policy, c Cmd) (Result, error) {
	p, err := withTools(p, c)
	if err != nil {
		return Result{Reason: ReasonSandboxError}, err
	}
	pl, err := r.Plan(ctx, p)
	if err != nil {
		return Result{Reason: ReasonSandboxError}, r.refused(ctx, c, pl, err)
	}
	err = checkCmd(c, pl)
	if err == nil {
		err = r.checkAudit(c)
	}
	if err != nil {
		return Result{Reason: ReasonSandboxError, Plan: pl.Digest}, r.refused(ctx, c, pl, err)
	}
	if err := r.enter(); err != nil {
		return Result{Reason: ReasonSandboxError, Plan: pl.Digest}, err
	}
	defer r.calls.Done()
	rec := r.record(ctx, pl, c)
	box, err := r.open(ctx, pl, container.OneShot)
	if err != nil {
		res := Result{Reason: unfinished(ctx, err), Plan: pl.Digest}
		if res.Reason == ReasonCancelled {
			r.counters.ended(res)
		}
		return res, errors.Join(err, rec.abandon(res.Reason, err))
	}
	res := box.failed()
	if err = box.recordIn(rec); err == nil {
		res, err = box.once(ctx, c)
	}
	if err != nil {
		res.Reason = unfinished(ctx, err)
	}
	err = errors.Join(err, rec.finish(box, &res, err))
	r.counters.ended(res)
	// the answer does not wait for mounts and namespaces to be taken down, nor
	// for the next sandbox to be made
	r.behind.Add(1)
	go func() {
		defer r.behind.Done()
		r.note(box.close())
		r.prepare(box.cell, pl)
	}()
	return res, err
}

// unfinished is the reason of a run that gave an error: a caller who wanted it
// no more, or ourselves.
func unfinished(ctx context.Context, err error) Reason {
	if why := ctx.Err(); why != nil && errors.Is(err, why) {
		return ReasonCancelled
	}
	return ReasonSandboxError
}

// withTools is the policy with the bridge that the tools of a command need. It
// checks them, so that nothing is started for a set that cannot be served.
func withTools(p Policy, c Cmd) (Policy, error) {
	switch {
	case c.Tools != nil && c.ToolHost != nil:
		return p, errors.New("cannot run: Tools and ToolHost are both given")
	case c.ToolHost != nil:
		p.Bridge = policy.FileBridge
	case c.Tools != nil:
		p.Bridge = policy.FileBridge
		return p, c.Tools.Check()
	}
	return p, nil
}

// bridgeWatcher makes the watcher that all tool bridges share, at first use.
func (r *Runtime) bridgeWatcher() (*bridge.Watcher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watcher == nil {
		w, err := bridge.NewWatcher()
		if err != nil {
			return nil, err
		}
		r.watcher = w
	}
	return r.watcher, nil
}

// enter begins a call that uses sandboxes; Close waits for its end.
func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errRuntimeClosed
	}
	r.calls.Add(1)
	return nil
}

// note keeps an error of a tear-down for Close to report.
func (r *Runtime) note(err error) {
	if err == nil {
		return
	}
	r.counters.tornBadly()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.torn) < maxTorn {
		r.torn = append(r.torn, err)
	}
}

// open takes a slot and a sandbox: one that was made ahead, or a new one.
func (r *Runtime) open(ctx context.Context, pl plan.Plan, life container.Lifetime) (*box, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("cannot start sandbox: %w", err)
	}
	if err := r.queue.acquire(ctx, r.closing); err != nil {
		return nil, err
	}
	c, err := r.cell(ctx, pl)
	if err != nil {
		r.queue.release()
		return nil, explain(ctx, r.options.Dir, err)
	}
	var b *box
	if life == container.OneShot {
		b = r.spare(c, pl.Digest)
	}
	from := madeAhead
	if b == nil {
		from = madeNow
		if b, err = r.make(ctx, c, pl, life); err != nil {
			r.leave(c)
			r.queue.release()
			return nil, err
		}
	}
	r.counters.took(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[b] = true
	return b, nil
}

// make makes a sandbox on a seat of the cell.
func (r *Runtime) make(ctx context.Context, c *cell, pl plan.Plan, life container.Lifetime) (*box, error) {
	seat, err := r.seat(ctx, c)
	if err != nil {
		var ended *container.TemplateError
		if errors.As(err, &ended) {
			r.retire(c)
		}
		return nil, err
	}
	sb, err := seat.NewSandbox(ctx, pl, life)
	if err != nil {
		return nil, errors.Join(err, seat.Close())
	}
	b := newBox(r, c, seat, sb, pl)
	if err := b.startNetwork(ctx); err != nil {
		return nil, errors.Join(err, b.discard())
	}
	return b, nil
}

// prepare makes a sandbox ahead for the next run under the same plan. It has
// every layer on and has never run a program.
func (r *Runtime) prepare(c *cell, pl plan.Plan) {
	r.mu.Lock()
	wanted := !r.closed && c.wantSpare(pl.Digest, r.options.Spares)
	r.mu.Unlock()
	if !wanted {
		return
	}
	b, err := r.make(context.Background(), c, pl, container.OneShot)
	if err != nil {
		c.addSpare(nil)
		return // the next run meets the same error and reports it
	}
	for _, old := range c.addSpare(b) {
		r.note(old.discard())
	}
}

// Close ends all runs, sandboxes and cells and proves that nothing is left of
// them. A run that it ends has the reason "cancelled".
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	if r.idle != nil {
		r.idle.Stop()
	}
	cells := r.cells
	r.cells = map[string]*cell{}
	r.mu.Unlock()

	late := r.waitForCalls()
	// the kernel takes some time to be done with a mount namespace: all of them
	// are ended before one is waited for
	for _, c := range cells {
		c.kill()
	}
	r.mu.Lock()
	left := maps.Clone(r.live)
	r.mu.Unlock()
	for b := range left { // kept ones, and those of runs that do not return
		r.note(b.close())
	}
	r.behind.Wait()
	r.mu.Lock()
	errs := append(r.torn, late)
	r.mu.Unlock()
	for _, c := range cells {
		errs = append(errs, c.close())
	}
	if r.watcher != nil {
		errs = append(errs, r.watcher.Close())
	}
	if begun := r.takeBegun(); begun != nil {
		errs = append(errs, begun.Close())
	}
	errs = append(errs, r.base.Close())
	if r.unwatch != nil {
		r.unwatch()
	}
	return errors.Join(errs...)
}

// waitForCalls waits until every run has returned. One may be held up by its
// caller's writer.
func (r *Runtime) waitForCalls() error {
	done := make(chan struct{})
	go func() {
		r.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(r.options.StopWait):
		return fmt.Errorf("cannot end every run: one has not returned after %s", r.options.StopWait)
	}
}
