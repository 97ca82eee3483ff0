package container

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/rootfs"
)

// Cell is one libcontainer container with the keeper as PID 1. It is safe for
// concurrent use.
type Cell struct {
	base *Base
	id   namespaces.Identity
	c    *libcontainer.Container // nil if it could not be created
	proc *libcontainer.Process
	root string // the directory that libcontainer pivots into; "" if there is none
	// running is whether proc was started.
	running bool

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

// config is the libcontainer configuration of a cell. It is written by hand,
// not by specconv: ToRootless drops the network namespace and all limits
// (trap T1).
func (b *Base) config(stages []rootfs.Stage, id namespaces.Identity, name, root string) *configs.Config {
	uid, gid := id.CellMaps()
	path, parent, leaf := b.Cgroup.Keeper(name)
	c := &configs.Config{
		Rootfs:            root,
		RootPropagation:   unix.MS_PRIVATE | unix.MS_REC,
		ParentDeathSignal: parentDeathSignal(),
		NoNewPrivileges:   true,
		Hostname:          "cell",
		Namespaces: configs.Namespaces{
			{Type: configs.NEWUSER}, {Type: configs.NEWNS}, {Type: configs.NEWPID},
			{Type: configs.NEWNET}, {Type: configs.NEWIPC}, {Type: configs.NEWUTS},
		},
		UIDMappings:     []configs.IDMap{{ContainerID: int64(uid.Inside), HostID: int64(uid.Outside), Size: int64(uid.Size)}},
		GIDMappings:     []configs.IDMap{{ContainerID: int64(gid.Inside), HostID: int64(gid.Outside), Size: int64(gid.Size)}},
		Capabilities:    &configs.Capabilities{Bounding: allCapabilities, Effective: allCapabilities, Permitted: allCapabilities},
		RootlessEUID:    os.Geteuid() != 0,
		RootlessCgroups: true,
		// The keeper needs no limits: it is a few KiB of our own code. Limits
		// are on the leaves.
		Cgroups: &cgroups.Cgroup{Path: path, Parent: parent, Name: leaf, Rootless: true, Resources: &cgroups.Resources{}},
		Mounts: []*configs.Mount{
			{Device: "proc", Source: "proc", Destination: "/proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		},
	}
	// one of the stages is bound on /dev: libcontainer makes none of its own
	for _, s := range stages {
		c.Mounts = append(c.Mounts, &configs.Mount{Device: "bind", Source: s.Source, Destination: s.Name, Flags: unix.MS_BIND | unix.MS_REC})
	}
	return c
}

// parentDeathSignal covers the time until the keeper runs. The signal is sent
// when the thread ends that forked; as root, libcontainer ends threads of its
// own that may be that one.
func parentDeathSignal() int {
	if os.Geteuid() == 0 {
		return 0
	}
	return int(unix.SIGKILL)
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
func (c *Cell) greet(tape keeper.Tape) error {
	r, err := answer(c.control, "cell", tape)
	if err != nil {
		return err
	}
	r.close()
	if c.template != nil {
		return nil // which is to fork the first seat
	}
	return c.seatOrdered(c.first)
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

// Kill begins to end the cell with everything in it; Close must follow.
func (c *Cell) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.running {
		_ = c.c.Signal(unix.SIGKILL)
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
	if c.running {
		_ = c.c.Signal(unix.SIGKILL)
		_, _ = c.proc.Wait()
	}
	var errs [3]error
	var all sync.WaitGroup
	all.Go(func() {
		if c.root != "" {
			errs[0] = os.RemoveAll(c.root)
		}
	})
	all.Go(func() {
		if first != nil {
			errs[1] = first.Close()
		}
	})
	if c.c != nil {
		errs[2] = c.c.Destroy()
	}
	all.Wait()
	if c.template != nil {
		errs[1] = errors.Join(errs[1], c.template.remove())
	}
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("cannot remove cell: %w", err)
	}
	return nil
}

// PID is the keeper's process id.
func (c *Cell) PID() int {
	pid, err := c.proc.Pid()
	if err != nil {
		return 0
	}
	return pid
}

// allCapabilities are what the keeper has in its own user namespace, where it
// mounts; a sandbox gives them up before its first program.
var allCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_KILL",
	"CAP_NET_ADMIN", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID",
	"CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE",
}
