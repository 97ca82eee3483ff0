// Package container makes cells and sandboxes, limits them, waits for them,
// kills them and proves that nothing is left.
//
// It is the only user of libcontainer: a cell is one container, created with
// Create and Run, whose program is the keeper. Sandboxes are cloned by the
// keeper's seats. It never decides: what happens stands in a plan. It needs
// Linux 5.14 with user namespaces.
//
// Callers live with one trait of libcontainer: making a cell marks every
// descriptor above 2 of the whole process close-on-exec.
package container

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // the C half of a cell's first steps
	"github.com/sirupsen/logrus"
)

// initArg is the argument libcontainer gives to the process it re-executes.
const initArg = "init"

// Init is the re-exec door. In a process that libcontainer started it does
// not return.
func Init() {
	entered.Store(true)
	if len(os.Args) == 2 && os.Args[1] == initArg && os.Getenv("_LIBCONTAINER_INITPIPE") != "" {
		runtime.LockOSThread()
		libcontainer.Init()
	}
	if os.Geteuid() == 0 {
		// As root libcontainer joins a cell's mount namespace on a thread that
		// is to end with its goroutine. The main thread never ends: it would
		// stay in the cell, and /proc/self would show the cell's mounts. So
		// nothing but the main goroutine may run there.
		runtime.LockOSThread()
	}
	// libcontainer warns about cgroups that it is told not to use
	logrus.SetLevel(logrus.ErrorLevel)
}

// entered is whether Init was called.
var entered atomic.Bool

// Entered tells whether Init was called. Without it a cell would be built by a
// program that starts over from its main.
func Entered() bool { return entered.Load() }

// ErrClosed is returned for what is closed already.
var ErrClosed = errors.New("closed")

// bug wraps what cannot happen unless this project has a fault.
func bug(format string, args ...any) error {
	return fmt.Errorf("bug in isolate: "+format, args...)
}
