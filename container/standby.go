package container

import (
	"fmt"
	"time"

	"github.com/isolate-run/isolate/container/keeper"
)

// A standby is a Process that is not told yet which program it is to be: a child
// of the init that waits at its socket. A sandbox for one program has it from
// the start; in one that is kept it is made when it is asked for, because there
// a program could meddle with it.

// fork has the init make a standby. It may send the order before there is an
// init; stood must follow.
func (b *Sandbox) fork() (*Process, error) {
	id := b.nextRun.Add(1)
	tape, err := standbyTape()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := sockPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p := &Process{sandbox: b, id: id, sock: ours, tape: tape, done: make(chan struct{})}
	if err := b.enlist(p); err != nil {
		_ = ours.close()
		return nil, err
	}
	if err := b.sock.send(tape.With(id), int(theirs.Fd())); err != nil {
		p.abandon()
		if ended(err) {
			err = fmt.Errorf("cannot start program: %w", ErrEnded)
		}
		return nil, err
	}
	return p, nil
}

// enlist makes the process one whose end the sandbox waits for.
func (b *Sandbox) enlist(p *Process) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case b.runs == nil:
		return fmt.Errorf("cannot start program: %w", ErrEnded)
	}
	if len(b.runs) == keeper.MaxRuns {
		return fmt.Errorf("cannot start program: %d programs run in this sandbox already", keeper.MaxRuns)
	}
	b.runs[p.id] = p
	return nil
}

// stood waits until a standby waits, and learns its process id.
func (p *Process) stood(deadline time.Time) error {
	r, err := answerBy(deadline, p.sock, "program", p.tape)
	if err != nil {
		return err
	}
	r.close()
	p.PID = r.pid
	return nil
}

// stands makes the standby of a new sandbox, if it is to have one, and waits for
// it: it is the last that comes to be, so that this process wakes once for it,
// the init and the seat's answer. Who reports what went wrong before it does so
// better.
func (b *Sandbox) stands() (err error) {
	if b.life != OneShot {
		return nil
	}
	if b.standby, err = b.fork(); err != nil {
		return err
	}
	return b.standby.stood(time.Now().Add(farSideTimeout))
}

// lacksStandby explains why stands failed although there is an init.
func (b *Sandbox) lacksStandby(err error) error {
	if p := b.takeStandby(); p != nil {
		err = p.startError(err)
		p.abandon()
	}
	return err
}

// takeStandby takes the standby that a sandbox for one program has; nil if there
// is none (any more).
func (b *Sandbox) takeStandby() *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.standby
	b.standby = nil
	return p
}

// dropStandby ends a standby that nobody has taken.
func (b *Sandbox) dropStandby() {
	if p := b.takeStandby(); p != nil {
		_ = p.sock.close()
	}
}
