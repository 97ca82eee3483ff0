package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// interrupts turns the signals that ask a command to stop into the end of a
// context. The first one ends the context; a second one says that the user
// does not want to wait for the clean-up.
type interrupts struct {
	// ctx ends at the first signal.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// forced is closed at the second signal.
	forced chan struct{}

	got  chan os.Signal
	pipe chan os.Signal
	done chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	first syscall.Signal
	at    time.Time // of the first
}

// sameSignal is how long the same signal again is taken for the first: timeout
// and terminals send one to the process and to its group.
const sameSignal = 200 * time.Millisecond

// watchSignals starts watching. The caller calls stop.
//
// A signal that was ignored when the command started (nohup) stays ignored.
// SIGPIPE is taken over, not ignored: an ignored signal stays ignored in the
// programs that are started, and without either the Go runtime would end the
// process at a closed standard output, before the sandbox is removed.
func watchSignals(parent context.Context) *interrupts {
	ctx, cancel := context.WithCancelCause(parent)
	i := &interrupts{
		ctx: ctx, cancel: cancel,
		forced: make(chan struct{}),
		got:    make(chan os.Signal, 2),
		pipe:   make(chan os.Signal, 1),
		done:   make(chan struct{}),
	}
	signal.Notify(i.pipe, syscall.SIGPIPE)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(i.got, s)
		}
	}
	i.wait.Go(i.watch)
	return i
}

func (i *interrupts) watch() {
	for {
		select {
		case <-i.done:
			return
		case s := <-i.got:
			if !i.note(s.(syscall.Signal)) {
				close(i.forced)
				return
			}
		}
	}
}

// note ends the context at the first signal and says whether it was that, or
// the same sent to us twice.
func (i *interrupts) note(s syscall.Signal) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first != 0 {
		return s == i.first && time.Since(i.at) < sameSignal
	}
	i.first, i.at = s, time.Now()
	i.cancel(errSignal)
	return true
}

// signal is the first signal caught; 0 is none.
func (i *interrupts) signal() syscall.Signal {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first
}

func (i *interrupts) stop() {
	signal.Stop(i.got)
	signal.Stop(i.pipe)
	close(i.done)
	i.wait.Wait()
	i.cancel(nil)
}
