package container

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// Program is one program to start in a sandbox.
type Program struct {
	Args []string
	Env  []string // "K=V", complete
	Path string   // where Args[0] is looked up
	Dir  string   // absolute path inside
	// Stdin, Stdout and Stderr are handed over; nil with a terminal. A nil
	// Stdin is the sandbox's /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Terminal asks for a pseudo-terminal of this size in their place.
	Terminal *Size
	// CPUs are the processors it may use; nil means all.
	CPUs []int
	// Preloaded is what a fork of the cell's template runs in place of Args, as
	// Call.Encode of package preload writes it; nil executes Args.
	Preloaded []byte
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }

// Exit is how a program ended.
type Exit struct {
	Status unix.WaitStatus
	// User and System are processor time of the program and the children it
	// waited for.
	User, System time.Duration
	// Lost means that the sandbox's init died first, so nobody waited: the
	// sandbox was killed.
	Lost bool
}

// Killed tells whether SIGKILL ended it.
func (e Exit) Killed() bool {
	return e.Lost || e.Status.Signaled() && e.Status.Signal() == unix.SIGKILL
}

// Process is a started program.
type Process struct {
	sandbox *Sandbox
	id      uint64
	sock    sock
	tape    keeper.Tape

	// PID as this process sees it, before and after execve.
	PID int
	// checked is whether checkRights was called.
	checked bool
	// Master is the host's side of the terminal; nil without one.
	Master *os.File

	deadline  time.Time // for all steps up to execve
	forkErrno unix.Errno

	once sync.Once
	exit Exit
	done chan struct{}
}

// NotStartedError means that no candidate could be executed.
type NotStartedError struct {
	Name  string
	Errno unix.Errno
}

func (e *NotStartedError) Error() string {
	return fmt.Sprintf("cannot execute %q: %v", e.Name, e.Errno)
}

// Prepare makes a process that has done everything but execve: its descriptors,
// limits and filter are in place, and it waits.
//
// The deadline is for the caller's patience: what runs in a kept sandbox
// already can hold a new process up.
func (b *Sandbox) Prepare(deadline time.Time, p Program) (*Process, error) {
	if latest := time.Now().Add(farSideTimeout); latest.Before(deadline) {
		deadline = latest
	}
	prog := program{args: p.Args, paths: candidates(p.Args[0], p.Path), env: p.Env, dir: p.Dir, cpus: p.CPUs, noStdin: p.Stdin == nil, preloaded: p.Preloaded}
	if p.Terminal != nil {
		prog.terminal, prog.size = true, [2]uint16{p.Terminal.Rows, p.Terminal.Cols}
	}
	tape, err := programTape(b.plan, prog)
	if err != nil {
		return nil, err
	}
	var streams []int
	if p.Terminal == nil {
		for _, f := range []*os.File{p.Stdin, p.Stdout, p.Stderr} {
			if f != nil {
				streams = append(streams, int(f.Fd()))
			}
		}
	}
	proc := b.takeStandby()
	if proc == nil {
		if proc, err = b.fork(); err != nil {
			return nil, err
		}
	}
	proc.deadline = deadline
	if err := proc.become(tape, streams, p.Terminal != nil); err != nil {
		proc.abandon()
		return nil, err
	}
	return proc, nil
}

// become tells a standby what it is to be, and waits until it is but for execve.
func (p *Process) become(tape keeper.Tape, streams []int, terminal bool) error {
	if err := p.sock.send(tape.Message, streams...); err != nil {
		return p.startError(err)
	}
	if p.PID == 0 { // just being forked
		if err := p.stood(p.deadline); err != nil {
			return p.startError(err)
		}
	}
	p.tape = tape
	return p.greet(terminal)
}

// greet takes what the process sends before it waits.
func (p *Process) greet(terminal bool) error {
	if terminal {
		r, err := answerBy(p.deadline, p.sock, "program", p.tape)
		if err != nil {
			return p.startError(err)
		}
		p.Master = r.fd
	}
	r, err := answerBy(p.deadline, p.sock, "program", p.tape)
	if err != nil {
		return p.startError(err)
	}
	r.close()
	return nil
}

// startError explains a socket that ended: if the init reported a failed fork
// or died, that is the reason.
func (p *Process) startError(err error) error {
	if ended(err) {
		select {
		case <-p.done:
			if p.forkErrno != 0 {
				return &keeper.StageError{Stage: "program", Step: "fork", Errno: p.forkErrno}
			}
			if p.exit.Lost {
				return fmt.Errorf("cannot start program: %w", ErrEnded)
			}
			return fmt.Errorf("cannot start program: its process was ended: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}

// Go lets the process execute the program. A *NotStartedError means that there
// is no such program.
func (p *Process) Go() error {
	if err := p.sock.send([]byte{1}); err != nil {
		return fmt.Errorf("cannot start program: %w", err)
	}
	p.sock.setDeadline(p.deadline)
	r, err := p.sock.recv()
	_ = p.sock.close()
	switch {
	case errors.Is(err, errEnded):
		return nil // execve closed the socket
	case err != nil:
		return fmt.Errorf("cannot start program: %w", err)
	}
	r.close()
	if step := p.tape.Step(r.A); step != keeper.StepExec {
		return &keeper.StageError{Stage: "program", Step: step, Errno: unix.Errno(r.B)}
	}
	return &NotStartedError{Errno: unix.Errno(r.B)}
}

// abandon forgets a process that did not come to be; its socket's end makes
// it exit if it is there.
func (p *Process) abandon() {
	_ = p.sock.close()
	// it may be stopped, and would never see that
	_ = p.Signal(unix.SIGKILL)
	if p.Master != nil {
		p.Master.Close()
	}
	p.sandbox.mu.Lock()
	delete(p.sandbox.runs, p.id)
	p.sandbox.mu.Unlock()
}

// Abort ends a prepared process that must not run.
func (p *Process) Abort() { p.abandon() }

// Signal sends a signal to the program's process group.
func (p *Process) Signal(sig unix.Signal) error {
	return p.sandbox.sock.send(keeper.Message(keeper.MsgSignal, 0, p.id, uint64(sig)))
}

// Done is closed when the program has ended; with it, when no other program
// runs in the sandbox, every process that it left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how it ended, after Done.
func (p *Process) Exit() Exit { return p.exit }

func (p *Process) finished(r keeper.Report) {
	p.once.Do(func() {
		if r.Kind == keeper.RepExit {
			p.exit = Exit{
				Status: unix.WaitStatus(r.B),
				User:   time.Duration(r.C) * time.Microsecond,
				System: time.Duration(r.D) * time.Microsecond,
			}
		} else {
			p.exit = Exit{Lost: true}
		}
		close(p.done)
	})
}

// notForked is the init's answer when it could not fork.
func (p *Process) notForked(errno unix.Errno) {
	p.once.Do(func() {
		p.forkErrno = errno
		p.exit = Exit{Lost: true}
		close(p.done)
	})
}

func (p *Process) lost() { p.finished(keeper.Report{Kind: keeper.RepFail}) }
