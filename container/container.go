// Package container makes cells and sandboxes, limits them, waits for them,
// kills them and proves that nothing is left.
//
// It is the only user of libcontainer, whose nsexec makes a cell's namespaces;
// the keeper then makes the rest, and its seats clone the sandboxes. It never
// decides: what happens stands in a plan. It needs Linux 5.14 with user
// namespaces.
package container

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Init is called first in main. A process that is to become a keeper does not
// get there (enter.c); Init only notes that whoever calls it knows the rules.
func Init() { entered.Store(true) }

// entered is whether Init was called.
var entered atomic.Bool

// Entered tells whether Init was called.
func Entered() bool { return entered.Load() }

// ErrClosed is returned for what is closed already.
var ErrClosed = errors.New("closed")

// ErrEnded means that a sandbox has ended without being closed: its init was
// killed.
var ErrEnded = errors.New("the sandbox has ended")

// bug wraps what cannot happen unless this project has a fault.
func bug(format string, args ...any) error {
	return fmt.Errorf("bug in isolate: "+format, args...)
}
