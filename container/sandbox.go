package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/plan"
)

// Seat is a process of the keeper's that lives in one cgroup leaf and clones
// the sandboxes of that leaf, one at a time.
type Seat struct {
	cell *Cell
	leaf *cgroup.Leaf
	sock sock
	pid  int
	busy bool
	// entry is how it enters the leaf.
	entry keeper.Tape
	// last is the tape of its last sandbox.
	last keeper.Tape
	net  network
}

// ownProcesses is how many of our own processes count against the leaf's
// process limit: the init, and on v1 the seat, which lives in the leaf.
func (s *Seat) ownProcesses() int {
	if s.leaf.FD != nil {
		return 1
	}
	return 2
}

// NewSeat makes a seat with a leaf of its own.
func (c *Cell) NewSeat(ctx context.Context) (*Seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if s := c.first; s != nil {
		c.first = nil
		return s, nil
	}
	leaf, err := c.base.Cgroup.NewLeaf()
	if err != nil {
		return nil, err
	}
	s, err := c.orderSeat(leaf, laterSeat)
	if err != nil {
		return nil, errors.Join(err, leaf.Remove(0))
	}
	if err := c.seatOrdered(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// orderSeat tells the keeper to fork a seat that enters the leaf; seatOrdered
// must follow. The caller holds the conversation with the keeper.
func (c *Cell) orderSeat(leaf *cgroup.Leaf, which ordinal) (*Seat, error) {
	doors, err := leaf.Doors()
	if err != nil {
		return nil, err
	}
	defer closeAll(doors)
	tape, err := seatTape(len(doors), which)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := sockPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	fds := []int{int(theirs.Fd())}
	for _, d := range doors {
		fds = append(fds, int(d.Fd()))
	}
	if err := c.forker().send(tape.Message, fds...); err != nil {
		_ = ours.close()
		return nil, c.lost(err)
	}
	return &Seat{cell: c, leaf: leaf, sock: ours, entry: tape}, nil
}

// seatOrdered waits until the seat is in its leaf.
func (c *Cell) seatOrdered(s *Seat) error {
	r, err := answer(c.forker(), "seat", keeper.Tape{})
	if err != nil {
		return c.lost(err)
	}
	r.close()
	return s.joined()
}

// joined waits for the seat's own word that it is in its leaf, and checks it.
func (s *Seat) joined() error {
	r, err := answer(s.sock, "seat", s.entry)
	if err != nil {
		return err
	}
	r.close()
	s.pid = r.pid
	return s.check()
}

// Again makes the seat fit to serve another sandbox. On v2 a leaf's peak of
// memory cannot be forgotten, so the seat gets another leaf, which it need not
// enter.
func (s *Seat) Again() error {
	if s.leaf.FD == nil {
		return nil
	}
	if err := s.leaf.Remove(leafEnd); err != nil {
		return err
	}
	var err error
	if s.leaf, err = s.cell.base.Cgroup.NewLeaf(); err != nil {
		s.leaf = &cgroup.Leaf{}
	}
	return err
}

// leafEnd bounds how long a leaf may take to be empty after its sandbox is gone.
const leafEnd = 5 * time.Second

// Ended tells whether the seat was ended: it makes no further sandbox.
func (s *Seat) Ended() bool { return s.sock.over() }

// Close ends the seat and its sandbox and removes the leaf.
func (s *Seat) Close() error {
	_ = s.sock.close()
	s.net.close()
	return s.leaf.Remove(leafEnd)
}

// Sandbox is a running sandbox: an init with its namespaces and its view.
type Sandbox struct {
	seat  *Seat
	leaf  *cgroup.Leaf
	plan  plan.Plan
	sock  sock
	pidfd *os.File // of the init
	// Workspace is the directory behind /workspace.
	Workspace *os.File
	// Bridge is the root of the tool bridge's file system, of which
	// BridgeParts are the directories; nil without one.
	Bridge *os.File
	// Device is the other end of the network device; nil without one. Who
	// takes it closes it and sets it to nil.
	Device *os.File
	// NetworkDir is the directory behind NetworkFiles; nil if nothing is
	// intercepted.
	NetworkDir *os.File
	// Listener is the seccomp notification descriptor; nil without one. Who
	// takes it closes it and sets it to nil.
	Listener *os.File
	pid      int // of the init, as this process sees it

	mu      sync.Mutex
	runs    map[uint64]*Process
	ended   chan struct{} // closed when the init's socket has ended
	nextRun atomic.Uint64
	standby *Process // nil if there is none, or once taken
	closed  bool
	life    Lifetime
	ending  atomic.Bool // the init is about to end by itself
}

// Lifetime says how long a sandbox lives.
type Lifetime int

const (
	// Kept sandboxes live until Close.
	Kept Lifetime = iota
	// OneShot sandboxes end with their first program.
	OneShot
)

// NewSandbox makes a sandbox in the seat's leaf.
func (s *Seat) NewSandbox(ctx context.Context, p plan.Plan, life Lifetime) (*Sandbox, error) {
	if s.busy {
		return nil, bug("seat is busy")
	}
	if err := s.ready(p, life); err != nil {
		return nil, err
	}
	if err := s.leaf.Reset(); err != nil {
		return nil, fmt.Errorf("cannot set limits: %w", err)
	}
	if !ownNetwork(p) {
		if err := s.cleanNetwork(); err != nil {
			return nil, err
		}
		s.net.clean = false // until somebody says that it is
	}
	tape, err := s.tape(p, life)
	if err != nil {
		return nil, err
	}
	ours, theirs, err := sockPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	fds := []int{int(theirs.Fd())}
	if p.HasNetwork() {
		dir, err := tunDir()
		if err != nil {
			ours.close()
			return nil, fmt.Errorf("cannot give a sandbox a network: %w", err)
		}
		fds = append(fds, int(dir.Fd()))
	}
	if s.leaf.FD != nil {
		fds = append(fds, int(s.leaf.FD.Fd()))
	}
	b := &Sandbox{seat: s, leaf: s.leaf, plan: p, life: life, sock: ours, runs: map[uint64]*Process{}, ended: make(chan struct{})}
	if err := s.order(tape, fds); err != nil {
		ours.close()
		return nil, err
	}
	theirs.Close()
	stands := b.stands()
	if err := b.cloned(tape); err != nil {
		return nil, err
	}
	var ready reply
	if err = b.takeBridge(tape); err == nil {
		err = b.takeDevice(tape)
	}
	if err == nil {
		ready, err = answer(ours, "sandbox", tape)
	}
	if err == nil {
		b.pid, b.Listener = ready.pid, ready.fd
		err = b.check()
	}
	if err != nil {
		close(b.ended)
		return nil, errors.Join(err, b.Close())
	}
	s.busy = true
	go b.listen()
	if stands != nil {
		return nil, errors.Join(b.lacksStandby(stands), b.Close())
	}
	return b, nil
}

// order tells the seat to clone an init. One like the last is ordered without
// its tape, which the seat still has: last is what it was sent, and nothing else.
func (s *Seat) order(tape keeper.Tape, fds []int) error {
	msg := tape.Message
	if tape.Is(s.last) && len(msg) <= keeper.MaxMessage {
		msg = keeper.Message(keeper.MsgSandbox, keeper.FlagAgain)
	}
	err := s.sock.send(msg, fds...)
	if err == nil {
		s.last = tape
	}
	return err
}

// cloned takes the seat's answer and the first one of the init. The init's comes
// later and is waited for first, so that this process wakes once for both; if
// there is no init, its socket ends.
func (b *Sandbox) cloned(tape keeper.Tape) error {
	ready, notReady := answer(b.sock, "sandbox", tape)
	r, err := answer(b.seat.sock, "sandbox", tape)
	if err != nil {
		ready.close()
		b.dropStandby()
		_ = b.sock.close()
		return err
	}
	b.pidfd = r.fd
	if notReady != nil {
		close(b.ended)
		return errors.Join(notReady, b.Close())
	}
	b.Workspace = ready.fd
	return nil
}

// ready sets the limits of the plan's next sandbox and writes its tape. What is
// so already is not done again.
func (s *Seat) ready(p plan.Plan, life Lifetime) error {
	lim := cgroup.Limits{Memory: p.Limits.Memory, PIDs: p.Limits.PIDs, CPUs: p.Limits.CPUs}
	if life == Kept {
		lim.OOM = cgroup.EndOne
	}
	if err := s.leaf.Set(lim, s.ownProcesses()); err != nil {
		return fmt.Errorf("cannot set limits: %w", err)
	}
	_, err := s.tape(p, life)
	return err
}

// tape is the set-up tape for a sandbox on this seat.
func (s *Seat) tape(p plan.Plan, life Lifetime) (keeper.Tape, error) {
	var flags uint32
	if life == OneShot {
		flags |= keeper.FlagOneShot
	}
	if s.leaf.FD != nil {
		flags |= keeper.FlagCgroup
	}
	return s.cell.tape(p, flags)
}

// maxTapes bounds the tapes a cell remembers: one per plan in use.
const maxTapes = 32

// tape is the set-up tape of a plan. It is the same for every sandbox of the
// plan, so it is written once.
func (c *Cell) tape(p plan.Plan, flags uint32) (keeper.Tape, error) {
	key := tapeKey{p.Digest, flags}
	c.tapes.Lock()
	defer c.tapes.Unlock()
	if t, ok := c.tapes.written[key]; ok {
		return t, nil
	}
	t, err := sandboxTape(p, flags)
	if err != nil {
		return keeper.Tape{}, err
	}
	if c.tapes.written == nil || len(c.tapes.written) == maxTapes {
		c.tapes.written = map[tapeKey]keeper.Tape{}
	}
	c.tapes.written[key] = t
	return t, nil
}

type tapeKey struct {
	plan  string
	flags uint32
}

// listen is the only reader of the init's socket. It ends when the init does.
func (b *Sandbox) listen() {
	defer close(b.ended)
	for {
		r, err := b.sock.recv()
		if err != nil {
			b.mu.Lock()
			for _, p := range b.runs {
				p.lost()
			}
			b.runs = nil
			b.mu.Unlock()
			return
		}
		r.close()
		b.mu.Lock()
		p := b.runs[uint64(r.A)]
		delete(b.runs, uint64(r.A))
		b.mu.Unlock()
		switch {
		case p == nil:
		case r.Kind == keeper.RepFail:
			p.notForked(unix.Errno(r.B))
		default:
			b.ending.Store(b.life == OneShot) // before anybody learns of the end
			p.finished(r.Report)
		}
	}
}

// Usage is what the sandbox has used since it was made.
func (b *Sandbox) Usage() (cgroup.Usage, error) { return b.leaf.Usage() }

// Leaf is the sandbox's cgroup.
func (b *Sandbox) Leaf() *cgroup.Leaf { return b.leaf }

// Ended tells whether a sandbox that nobody has used yet was ended: it runs no
// program any more. Its init ends with the seat.
func (b *Sandbox) Ended() bool {
	b.mu.Lock()
	standby := b.standby
	b.mu.Unlock()
	return b.seat.Ended() || hungUp(int(b.pidfd.Fd()), unix.POLLIN) || standby != nil && standby.sock.over()
}

// Signal sends a signal to everything in the sandbox but its init.
func (b *Sandbox) Signal(sig unix.Signal) error {
	return b.sock.send(keeper.Message(keeper.MsgSignal, 0, 0, uint64(sig)))
}

// Kill ends the sandbox at once: the kernel ends every process of a pid
// namespace with its init.
func (b *Sandbox) Kill() error {
	err := unix.PidfdSendSignal(int(b.pidfd.Fd()), unix.SIGKILL, nil, 0)
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("cannot kill sandbox: %w", err)
	}
	if err == nil {
		// The init ends the others when it gets a processor. They may keep
		// it from that, so they are ended directly, too.
		b.leaf.Kill(b.seat.pid)
	}
	return nil
}

// killAgain is how often the killing is repeated: a fork that was under way
// escapes one round.
const killAgain = 20 * time.Millisecond

// Gone kills until the init is dead, which the kernel reports only after
// every other process of its namespace is.
func (b *Sandbox) Gone(wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		left := time.Until(deadline)
		ms := max(0, int(min(left, killAgain).Milliseconds()))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.pidfd.Fd()), Events: unix.POLLIN}}, ms)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot wait for sandbox: %w", err)
		}
		if n == 0 && left > 0 {
			if err := b.Kill(); err != nil {
				return err
			}
			continue
		}
		if n == 0 {
			return fmt.Errorf("cannot end sandbox: its processes are still there after %s", wait)
		}
		return nil
	}
}

// Close kills the sandbox, waits until it is gone and frees its seat. It is
// idempotent.
func (b *Sandbox) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	var err error
	if !b.ending.Load() { // if it does not end after all, Gone kills it
		err = b.Kill()
	}
	if err == nil {
		err = b.Gone(farSideTimeout)
	}
	b.dropStandby()
	_ = b.sock.close()
	<-b.ended
	b.pidfd.Close()
	for _, f := range []*os.File{b.Workspace, b.Bridge, b.Device, b.NetworkDir, b.Listener} {
		if f != nil {
			f.Close()
		}
	}
	b.seat.busy = false
	return err
}
