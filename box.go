package isolate

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/egress/control"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// box is one sandbox with what it holds of the pool.
type box struct {
	runtime *Runtime
	cell    *cell
	seat    *container.Seat
	sandbox *container.Sandbox
	plan    plan.Plan
	denials *denial.Recorder // nil if refused calls are not reported
	kills   atomic.Int64     // how often the caller killed what runs in it
	calls   *calls           // nil without tools
	clock   clock
	record  *record          // nil if nothing is recorded
	network *control.Process // nil without a network
	net     netState
	// mourning waits for the network process to die before its time; over is
	// closed when its time has come.
	mourning sync.WaitGroup
	over     chan struct{}
	netEnv   map[string]string // what programs are told of the network
	overOnce sync.Once
	// unrouted counts what the network turned away unasked; nil if nothing is
	// recorded, because reading it takes a tenth of a millisecond.
	unrouted *container.Unrouted

	users   users
	closing sync.Once
	err     error
}

// newBox begins to answer the sandbox's refused calls.
func newBox(r *Runtime, c *cell, seat *container.Seat, sb *container.Sandbox, pl plan.Plan) *box {
	b := &box{runtime: r, cell: c, seat: seat, sandbox: sb, plan: pl, over: make(chan struct{})}
	if sb.Listener != nil {
		b.denials = denial.Start(sb.Listener, denial.Options{Routed: routes(pl), Classify: destinationClass, IP: ipSockets(pl)})
		sb.Listener = nil
	}
	return b
}

// ipSockets says whether programs may have IPv4 and IPv6 sockets.
func ipSockets(pl plan.Plan) denial.IPSockets {
	if pl.Profile == policy.ProfileStrict.String() {
		return denial.IPRefused
	}
	return denial.IPAllowed
}

// recordIn records what happens in the sandbox, from before its first program.
func (b *box) recordIn(r *record) (err error) {
	b.record = r
	if r != nil && !b.plan.HasNetwork() {
		b.unrouted, err = b.sandbox.CountUnrouted()
	}
	return err
}

// noRoute is how much the network turned away unasked so far.
func (b *box) noRoute() (int64, error) {
	if b.unrouted == nil {
		return 0, nil
	}
	return b.unrouted.Count()
}

// blocked is what was refused in the sandbox so far.
func (b *box) blocked() denial.Summary {
	if b.denials == nil {
		return denial.Summary{}
	}
	return b.denials.Seen()
}

// once runs the only program of a sandbox, with its files in and out.
func (b *box) once(ctx context.Context, c Cmd) (Result, error) {
	var in *Manifest
	if len(c.In) > 0 {
		m, err := b.copyIn(ctx, c.In)
		if err != nil {
			return b.failed(), err
		}
		in = &m
		if err := b.record.files("in", m); err != nil {
			return b.failed(), err
		}
	}
	if c.Tools != nil {
		if err := b.serve(ctx, c.Tools); err != nil {
			return b.failed(), err
		}
	}
	if c.ToolHost != nil {
		defer func() { b.calls.end() }() // also where no program ran
		if err := b.serveBy(ctx, c.ToolHost); err != nil {
			return b.failed(), err
		}
	}
	if err := b.openNetwork(ctx); err != nil {
		return b.failed(), err
	}
	res, err := b.run(ctx, c, alone)
	if b.network != nil { // its last events belong to this run
		s := b.network.Finish()
		res.Net = &s
	}
	res.In = in
	if err != nil || c.Out == "" || errors.Is(context.Cause(ctx), ErrAbandoned) {
		return res, err
	}
	if ctx.Err() != nil { // the program was interrupted, its work is still wanted
		var done context.CancelFunc
		ctx, done = context.WithTimeout(context.WithoutCancel(ctx), lateCopy)
		defer done()
	}
	m, err := b.copyOut(ctx, "", c.Out)
	if err != nil {
		return res, err
	}
	res.Out = &m
	return res, nil
}

// lateCopy bounds the copying out after a run that the caller's context ended.
const lateCopy = 10 * time.Second

func (b *box) copyIn(ctx context.Context, in []Input) (Manifest, error) {
	dir, err := b.workspace()
	if err != nil {
		return Manifest{}, err
	}
	m, err := workspace.CopyIn(ctx, dir, in, b.inLimits())
	awaitForks()
	return m, err
}

// inLimits bound what is copied in.
func (b *box) inLimits() workspace.Limits {
	// if we are root, programs are not
	return workspace.Limits{MaxBytes: b.plan.Disk, MaxFiles: b.plan.Inodes, Owner: b.owner()}
}

// awaitForks waits until every process that we forked before has executed its
// program. Until then it holds copies of our descriptors, and a program that
// was just copied in is busy while one of them is open for writing (ETXTBSY,
// case A70). Package syscall holds the lock from fork to execve; for the moment
// until execve has closed them, the far side tries again.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

// copyOut copies the directory path of the workspace, "" being all of it.
func (b *box) copyOut(ctx context.Context, path, to string) (Manifest, error) {
	dir, err := b.workspace()
	if err != nil {
		return Manifest{}, err
	}
	return workspace.CopyOutOf(ctx, dir, path, to, workspace.Limits{MaxBytes: b.plan.Disk, MaxFiles: b.plan.Inodes, Bridge: b.plan.Bridge})
}

// workspace is the handle of /workspace, which is open to its owner: a program
// can close it to all, and must not lock out who keeps the sandbox.
func (b *box) workspace() (*os.File, error) {
	dir := b.sandbox.Workspace
	return dir, workspace.Reclaim(dir)
}

// failed is the result of a run in which the sandbox did not do its job.
func (b *box) failed() Result {
	return Result{Reason: ReasonSandboxError, Plan: b.plan.Digest, Weakenings: b.plan.Weakenings,
		Identity: string(b.plan.Identity.Mode), Limits: b.plan.Limits.By}
}

// close ends a sandbox that was in use and gives seat, cell and slot back. It
// is idempotent.
func (b *box) close() error {
	b.closing.Do(func() {
		b.end()
		b.err = errors.Join(b.err, b.record.close(b))
		b.runtime.leave(b.cell)
		b.runtime.mu.Lock()
		delete(b.runtime.live, b)
		b.runtime.mu.Unlock()
		b.runtime.queue.release()
	})
	return b.err
}

// discard ends a sandbox that was made ahead and never used.
func (b *box) discard() error {
	b.closing.Do(b.end)
	return b.err
}

func (b *box) end() {
	calls := b.calls.close() // before the handles that it uses
	b.err = errors.Join(b.sandbox.Close(), calls)
	b.endNetwork()
	if b.denials != nil {
		b.denials.Stop()
	}
	if b.unrouted != nil {
		b.unrouted.Close()
	}
	if b.err != nil {
		// a seat whose sandbox is not gone must not be used again
		b.err = errors.Join(b.err, b.seat.Close())
		return
	}
	if b.denials != nil && !b.denials.MadeIP() {
		b.sandbox.KeepNetwork()
	}
	b.err = b.cell.release(b.seat)
}

// Sandbox is a kept sandbox: files and /tmp live from one Run to the next.
type Sandbox struct{ box *box }

// Sandbox makes a sandbox that is kept until Close.
func (r *Runtime) Sandbox(ctx context.Context, p Policy) (*Sandbox, error) {
	return r.SandboxWithTools(ctx, p, nil)
}

// SandboxWithTools makes a sandbox that is kept until Close and whose programs
// may call tools; several may at once. The limits of t count for the sandbox as
// a whole. Nil means no tools.
func (r *Runtime) SandboxWithTools(ctx context.Context, p Policy, t *Tools) (*Sandbox, error) {
	p, err := withTools(p, Cmd{Tools: t})
	if err != nil {
		return nil, err
	}
	pl, err := r.Plan(ctx, p)
	if err != nil {
		return nil, r.refused(ctx, Cmd{}, pl, err)
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.calls.Done()
	b, err := r.open(ctx, pl, container.Kept)
	if err != nil {
		return nil, err
	}
	if err := b.recordIn(r.recordKept(ctx, pl)); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.record != nil {
		if err := b.record.ready(); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if t != nil {
		if err := b.serve(ctx, t); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if err := b.openNetwork(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return &Sandbox{b}, nil
}

// Run runs a program in the sandbox. Several may run at once; usage and limits
// are those of the sandbox as a whole. What a program leaves behind ends when
// no other program runs.
func (s *Sandbox) Run(ctx context.Context, c Cmd) (Result, error) {
	if err := checkCmd(c, s.box.plan); err != nil {
		return s.box.failed(), err
	}
	if c.Tools != nil || c.ToolHost != nil {
		return s.box.failed(), errors.New("cannot run: Tools are for Runtime.Run; a kept sandbox is made with them by SandboxWithTools")
	}
	if len(c.In) > 0 || c.Out != "" {
		return s.box.failed(), errors.New("cannot run: In and Out are for Runtime.Run; a kept sandbox has CopyIn and CopyOut")
	}
	if err := s.box.runtime.enter(); err != nil {
		return s.box.failed(), err
	}
	defer s.box.runtime.calls.Done()
	if !s.box.users.enter() {
		return s.box.failed(), errSandboxClosed
	}
	defer s.box.users.leave()
	if _, err := s.box.workspace(); err != nil {
		return s.box.failed(), err
	}
	end := s.box.follow(ctx, c)
	res, err := s.box.run(ctx, c, amongOthers)
	err = errors.Join(err, s.box.record.ended(res))
	end(res, err)
	s.box.runtime.counters.ended(res)
	return res, err
}

// Kill ends every program in the sandbox; the sandbox stays usable.
func (s *Sandbox) Kill() error {
	s.box.kills.Add(1)
	return s.box.sandbox.Signal(killSignal)
}

// CopyIn copies host files into the workspace.
func (s *Sandbox) CopyIn(ctx context.Context, in []Input) (Manifest, error) {
	m, err := s.box.copyIn(ctx, in)
	return m, errors.Join(err, s.box.record.files("in", m))
}

// CopyOut copies the workspace to a host directory.
func (s *Sandbox) CopyOut(ctx context.Context, dir string) (Manifest, error) {
	return s.CopyOutOf(ctx, "", dir)
}

// CopyOutOf copies a directory of the workspace to a host directory; path is
// relative to /workspace, which "" is itself.
func (s *Sandbox) CopyOutOf(ctx context.Context, path, dir string) (Manifest, error) {
	m, err := s.box.copyOut(ctx, path, dir)
	return m, errors.Join(err, s.box.record.files("out", m))
}

// Close ends the sandbox, with what runs in it, and frees all it held. It is
// idempotent.
func (s *Sandbox) Close() error {
	idle, busy := s.box.users.close()
	if busy {
		s.box.kills.Add(1)
		_ = s.box.sandbox.Kill() // close reports what cannot be killed
	}
	select { // what is asked of the sandbox at the end of a run must be there
	case <-idle:
	case <-time.After(s.box.runtime.options.StopWait): // held up by a caller's writer
	}
	return s.box.close()
}
