package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/opencontainers/runc/libcontainer/configs/validate"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/rootfs"
)

// Blank is a cell that is being made, as far as it depends on no plan: its
// namespaces, and the keeper that waits for its orders. The plan is made
// meanwhile.
type Blank struct {
	cell *Cell

	seat    chan struct{} // closed when leaf or needErr is set
	leaf    *cgroup.Leaf  // of the first seat; nil if it could not be made
	needErr error
	err     error
	built   chan struct{} // closed when the namespaces are there, or err is set
	used    bool          // Furnish or Close was called
}

// Begin begins to make a cell of a process that waits for one; nil starts one.
// Furnish or Close must follow.
func (b *Base) Begin(w *Waiting) (*Blank, error) {
	if w == nil {
		var err error
		if w, err = Spawn(); err != nil {
			return nil, err
		}
	}
	n := &Blank{cell: &Cell{base: b, control: w.control}, built: make(chan struct{}), seat: make(chan struct{})}
	go func() {
		n.err = n.cell.start(w)
		close(n.built)
	}()
	go func() {
		n.leaf, n.needErr = b.Cgroup.NewLeaf()
		close(n.seat)
	}()
	runtime.Gosched() // what was begun takes longest: it goes first
	return n, nil
}

// NewCell makes a cell for the plan.
func (b *Base) NewCell(ctx context.Context, p plan.Plan) (*Cell, error) {
	n, err := b.Begin(nil)
	if err != nil {
		return nil, err
	}
	return n.Furnish(ctx, p)
}

// Furnish makes the cell of a plan.
//
// The cell's orders and the one for a first seat are sent before the keeper
// exists: it finds them when it starts.
func (n *Blank) Furnish(ctx context.Context, p plan.Plan) (*Cell, error) {
	c := n.cell
	orders, err := n.order(p)
	if <-n.built; n.err != nil {
		// what broke says more than what could not be sent or undone
		_ = n.Close()
		return nil, n.err
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.used = true
	err = c.greet(orders)
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
func (n *Blank) order(p plan.Plan) ([]order, error) {
	orders, err := n.orderRoot(p.View)
	if <-n.seat; err == nil {
		err = n.needErr
	}
	if err != nil {
		return nil, err
	}
	if p.Preload != nil {
		n.cell.template = &template{leaf: n.leaf} // which forks the seats
		return orders, nil
	}
	seat, err := n.cell.orderSeat(n.leaf, firstSeat)
	if err != nil {
		return nil, err
	}
	n.cell.first = seat
	return orders, seat.ready(p, OneShot)
}

// orderRoot has the keeper build the root of the view.
func (n *Blank) orderRoot(v rootfs.View) ([]order, error) {
	trees, err := openTrees(v.Stages)
	defer closeAll(trees)
	if err != nil {
		return nil, err
	}
	orders, err := cellOrders(v, n.cell.base.dir, trees)
	for _, o := range orders {
		if err == nil {
			err = n.cell.control.send(o.tape.Message, o.fds...)
		}
	}
	return orders, err
}

// openTrees opens the stages as detached mounts where the keeper has not the
// rights to reach them by their paths: where root's cells have an id that owns
// nothing. Nothing that happens in the cell comes back to the host's mounts.
func openTrees(stages []rootfs.Stage) ([]*os.File, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var trees []*os.File
	for _, s := range stages {
		fd, err := unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return trees, fmt.Errorf("cannot open %q for a cell: %w", s.Source, err)
		}
		trees = append(trees, os.NewFile(uintptr(fd), s.Source))
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
		if err != nil {
			return trees, fmt.Errorf("cannot part %q from the host's mounts: %w", s.Source, err)
		}
	}
	return trees, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Close removes a cell that is not wanted after all. It does nothing after
// Furnish.
func (n *Blank) Close() error {
	if n.used {
		return nil
	}
	n.used = true
	<-n.built
	<-n.seat
	if n.cell.first == nil && n.cell.template == nil && n.leaf != nil {
		n.cell.first = &Seat{cell: n.cell, leaf: n.leaf}
	}
	return n.cell.Close()
}

// start makes the cell's namespaces and puts the keeper in them.
func (c *Cell) start(w *Waiting) error {
	if <-w.done; w.err != nil {
		return w.err
	}
	config := cellConfig(c.base.dir, os.Geteuid(), os.Getegid())
	err := validate.Validate(config)
	if err != nil {
		err = fmt.Errorf("cannot describe cell: %w", err)
	}
	var group *os.File
	if err == nil {
		group, err = c.base.Cgroup.Keepers()
	}
	if err != nil {
		return errors.Join(err, w.proc.abandon())
	}
	if group != nil {
		defer group.Close()
	}
	if err := w.proc.enter(config, group); err != nil {
		return fmt.Errorf("cannot start cell: %w", err)
	}
	c.proc = w.proc
	return nil
}
