package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/rootfs"
)

// Blank is a cell that is being made, as far as it depends on no plan: the
// container with its stages, and the keeper that waits for its tape. What
// libcontainer does for it is nine tenths of the time that a cell takes, and
// most of that on another processor: meanwhile the plan is made.
type Blank struct {
	cell   *Cell
	stages []rootfs.Stage
	theirs *os.File // the keeper's end of its control socket

	leaf    *cgroup.Leaf // of the first seat; nil if it could not be made
	image   *os.File     // the keeper; closed by build
	needErr error
	needs   chan struct{} // closed when leaf and image or needErr are set
	err     error
	built   chan struct{} // closed when the keeper is running, or err is set
	used    bool          // Furnish or Close was called
}

// Begin begins to make a cell with these stages. Furnish or Close must follow.
func (b *Base) Begin(stages []rootfs.Stage, id namespaces.Identity) (*Blank, error) {
	control, theirs, err := sockPair()
	if err != nil {
		return nil, err
	}
	n := &Blank{
		cell: &Cell{base: b, id: id, control: control}, stages: stages, theirs: theirs,
		needs: make(chan struct{}), built: make(chan struct{}),
	}
	go func() {
		n.err = n.build()
		close(n.built)
	}()
	runtime.Gosched() // what was begun takes longest: it goes first
	if n.leaf, n.needErr = b.Cgroup.NewLeaf(); n.needErr == nil {
		n.image, n.needErr = keeperFile()
	}
	close(n.needs)
	return n, nil
}

// Fits tells whether a plan's cell can be made of this one.
func (n *Blank) Fits(p plan.Plan) bool {
	return n.cell.id == p.Identity && slices.Equal(n.stages, p.View.Stages)
}

// NewCell makes a cell for the plan.
func (b *Base) NewCell(ctx context.Context, p plan.Plan) (*Cell, error) {
	n, err := b.Begin(p.View.Stages, p.Identity)
	if err != nil {
		return nil, err
	}
	return n.Furnish(ctx, p)
}

// Furnish makes the cell of a plan that fits.
//
// The cell's tape and the order for a first seat are sent before the keeper
// exists: it finds them when it starts and does not wait for libcontainer's
// last steps on our side.
func (n *Blank) Furnish(ctx context.Context, p plan.Plan) (*Cell, error) {
	c := n.cell
	tape, err := cellTape(p.View)
	if err == nil {
		err = n.order(p, tape)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if <-n.built; n.err != nil {
		err := n.err // what broke says more than what could not be undone
		_ = n.Close()
		return nil, err
	}
	n.used = true
	err = c.greet(tape)
	if err == nil && p.Preload != nil {
		err = c.preload(p)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// order sends what the keeper finds when it starts, and prepares what the
// plan's first sandbox needs.
func (n *Blank) order(p plan.Plan, tape keeper.Tape) error {
	if err := n.cell.control.send(tape.Message); err != nil {
		return err
	}
	if <-n.needs; n.needErr != nil {
		return n.needErr
	}
	if p.Preload != nil {
		n.cell.template = &template{leaf: n.leaf} // which forks the seats
		return nil
	}
	seat, err := n.cell.orderSeat(n.leaf)
	if err != nil {
		return err
	}
	n.cell.first = seat
	return seat.ready(p, OneShot)
}

// Close removes a cell that is not wanted after all. It waits for libcontainer,
// and does nothing after Furnish.
func (n *Blank) Close() error {
	if n.used {
		return nil
	}
	n.used = true
	<-n.built
	if n.cell.first == nil && n.cell.template == nil && n.leaf != nil {
		n.cell.first = &Seat{cell: n.cell, leaf: n.leaf}
	}
	return n.cell.Close()
}

// build has libcontainer run the keeper from a memfd: no file of the root file
// system is executed, and none can be exchanged for it.
func (n *Blank) build() error {
	defer n.theirs.Close()
	c, b := n.cell, n.cell.base
	err := n.create()
	if <-n.needs; n.image != nil { // also because KeepOut keeps our own leaves out
		defer n.image.Close()
	}
	if err = errors.Join(err, n.needErr); err != nil {
		return err
	}
	devNull, err := os.OpenFile(os.DevNull, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot start cell: %w", err)
	}
	defer devNull.Close()
	c.proc = &libcontainer.Process{
		// ExtraFiles become 3 (the control socket) and 4 (the image)
		Args:       []string{"/proc/self/fd/4"},
		Env:        []string{"PATH=" + rootfs.DefaultPath, "HOME=/"}, // HOME set: libcontainer would read passwd (CVE-2026-135844)
		Cwd:        "/",
		Stdin:      devNull,
		Stdout:     devNull,
		Stderr:     devNull,
		ExtraFiles: []*os.File{n.theirs, n.image},
		Init:       true,
		LogLevel:   "3", // warnings; by default its C half writes two dozen lines of debugging
	}
	if err := b.Cgroup.KeepOut(c.run); err != nil {
		return fmt.Errorf("cannot start cell: %w", err)
	}
	c.running = true
	return nil
}

// create makes the cell's directory and libcontainer's container.
func (n *Blank) create() (err error) {
	c, b := n.cell, n.cell.base
	if c.root, err = b.makeRoot(n.stages); err != nil {
		return err
	}
	name := filepath.Base(c.root)
	c.c, err = libcontainer.Create(filepath.Join(b.dir, stateName), b.id+"-"+name, b.config(n.stages, c.id, name, c.root))
	if err != nil {
		return fmt.Errorf("cannot create cell: %w", err)
	}
	return nil
}

// oneThread guards the environment variable that run sets.
var oneThread sync.Mutex

// run has libcontainer start the keeper. libcontainer hands GOMAXPROCS on to
// the process it starts, and that process is a Go program for a few
// milliseconds only: with one processor it starts fewer threads, which took a
// sixth off the time to make a cell.
func (c *Cell) run() error {
	oneThread.Lock()
	defer oneThread.Unlock()
	if old, set := os.LookupEnv("GOMAXPROCS"); set {
		defer os.Setenv("GOMAXPROCS", old)
	} else {
		defer os.Unsetenv("GOMAXPROCS")
	}
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil {
		return err
	}
	return c.c.Run(c.proc)
}
