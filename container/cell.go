package container

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/namespaces"
)

// Cell is a set of namespaces with the keeper as PID 1. It is safe for
// concurrent use.
type Cell struct {
	base *Base
	proc *newcomer // nil if it could not be started

	mu      sync.Mutex // one conversation with the keeper at a time
	control sock
	closed  bool
	first   *Seat // made with the cell; nil once taken
	// template forks the seats in the keeper's place; nil without one.
	template *template

	tapes struct {
		sync.Mutex
		written map[tapeKey]keeper.Tape
	}
}

// farSideTimeout bounds how long trusted code on the far side may take for one
// answer. It is generous: the machine may be overloaded.
const farSideTimeout = 30 * time.Second

// cellConfig is what libcontainer's nsexec is to make for a cell of a caller
// with these ids. It is written by hand, not by specconv: ToRootless drops
// the network namespace and all limits (trap T1).
func cellConfig(dir string, euid, egid int) *configs.Config {
	uid, gid := namespaces.Choose(euid, egid).CellMaps()
	return &configs.Config{
		Rootfs: dir,
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID},
			{Type: configs.NEWNET}, {Type: configs.NEWIPC}, {Type: configs.NEWUTS},
		},
		UIDMappings:  []configs.IDMap{{ContainerID: int64(uid.Inside), HostID: int64(uid.Outside), Size: int64(uid.Size)}},
		GIDMappings:  []configs.IDMap{{ContainerID: int64(gid.Inside), HostID: int64(gid.Outside), Size: int64(gid.Size)}},
		RootlessEUID: euid != 0,
	}
}

// keeperFile is a sealed memfd with the far side's executable.
func keeperFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("keeper", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 every memfd is executable
		fd, err = unix.MemfdCreate("keeper", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make memfd for the keeper: %w", err)
	}
	f := os.NewFile(uintptr(fd), "keeper")
	if _, err := f.Write(keeper.Image()); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot fill memfd for the keeper: %w", err)
	}
	if err = unix.Fchmod(fd, 0o555); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot seal memfd for the keeper: %w", err)
	}
	return f, nil
}

// greet reads the answers to what Blank.order sent.
func (c *Cell) greet(orders []order) error {
	for _, o := range orders {
		r, err := answer(c.control, "cell", o.tape)
		if errors.Is(err, errEnded) {
			err = errors.Join(err, c.proc.said())
		}
		if err != nil {
			return err
		}
		r.close()
	}
	if c.template != nil {
		return nil // which is to fork the first seat
	}
	if err := c.seatOrdered(c.first); err != nil {
		return err
	}
	return c.first.hasNetwork()
}

// converse sends a message and reads one answer; a failure becomes a
// StageError.
func converse(s sock, stage string, tape keeper.Tape, msg []byte, fds ...int) (reply, error) {
	if err := s.send(msg, fds...); err != nil {
		return reply{}, err
	}
	return answer(s, stage, tape)
}

func answer(s sock, stage string, tape keeper.Tape) (reply, error) {
	return answerBy(time.Now().Add(farSideTimeout), s, stage, tape)
}

// answerBy is answer with a deadline of the caller's.
func answerBy(deadline time.Time, s sock, stage string, tape keeper.Tape) (reply, error) {
	s.setDeadline(deadline)
	r, err := s.recv()
	s.setDeadline(time.Time{})
	if err != nil {
		return reply{}, fmt.Errorf("cannot set up %s: %w", stage, err)
	}
	if r.Kind == keeper.RepFail {
		r.close()
		return reply{}, &keeper.StageError{Stage: stage, Step: tape.Step(r.A), Errno: unix.Errno(r.B)}
	}
	return r, nil
}

// Ended tells whether what forks the seats was ended, as by a host that has run
// out of memory: the cell makes no further sandbox.
func (c *Cell) Ended() bool {
	return c.control.over() || c.template != nil && c.template.sock.over()
}

// Kill begins to end the cell with everything in it; Close must follow.
func (c *Cell) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.proc != nil {
		c.proc.kill()
	}
}

// Close ends the cell with everything in it and waits for the kernel to be
// done. It is idempotent.
func (c *Cell) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.control.close()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if c.template != nil {
		c.template.close()
	}
	if c.proc != nil {
		c.proc.kill()
		c.proc.wait()
	}
	var errs []error
	if first != nil {
		errs = append(errs, first.Close())
	}
	if c.template != nil {
		errs = append(errs, c.template.remove())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot remove cell: %w", err)
	}
	return nil
}

// PID is the keeper's process id.
func (c *Cell) PID() int { return c.proc.pid }
