package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// signalSource is where the signals for a command come from.
type signalSource interface {
	// notify sends those of sigs that are not ignored to the channel, without
	// waiting for it.
	notify(to chan<- os.Signal, sigs ...os.Signal)
	// stop undoes notify.
	stop(to chan<- os.Signal)
}

// source is where this command's signals come from.
func (a *app) source() signalSource {
	if a.signals == nil {
		return &osSignals{}
	}
	return a.signals
}

// osSignals are the process's own.
//
// SIGPIPE is taken over, not ignored: an ignored signal stays ignored in the
// programs that are started, and without either the Go runtime would end the
// process at a closed standard output, before the sandbox is removed.
type osSignals struct{ pipe chan os.Signal }

func (o *osSignals) notify(to chan<- os.Signal, sigs ...os.Signal) {
	o.pipe = make(chan os.Signal, 1)
	signal.Notify(o.pipe, syscall.SIGPIPE)
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(to, s)
		}
	}
}

func (o *osSignals) stop(to chan<- os.Signal) {
	signal.Stop(to)
	signal.Stop(o.pipe)
}

// interrupts turns the signals that ask a command to stop into the end of a
// context. The first one ends the context; a second one says that the user
// does not want to wait for the clean-up.
type interrupts struct {
	// ctx ends at the first signal.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// forced is closed at the second signal.
	forced chan struct{}

	from signalSource
	got  chan os.Signal
	done chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	first syscall.Signal
	at    time.Time // of the first
}

// sameSignal is how long the same signal again is taken for the first: timeout
// and terminals send one to the process and to its group.
const sameSignal = 200 * time.Millisecond

// stops are the signals that ask any command to stop; programStops are those
// that would end a program which does not know of them, and so end a run.
var (
	stops        = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	programStops = append(slices.Clip(stops), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGXCPU)
)

// watchSignals starts watching for stops, or those it is given. The caller calls
// stop.
//
// A signal that was ignored when the command started (nohup) stays ignored.
func (a *app) watchSignals(parent context.Context, sigs ...os.Signal) *interrupts {
	a.watched = watchSignals(parent, a.source(), append(sigs, stops...)...)
	return a.watched
}

// interrupted says whether the command ends because of SIGINT.
func (a *app) interrupted() bool {
	return a.watched != nil && a.watched.signal() == syscall.SIGINT && a.code == exitSignal+int(syscall.SIGINT)
}

// dieOf ends this process by a signal, if that is possible. A shell that runs a
// list or a loop of commands goes on after one that has only exited, whatever its
// code, and stops after one that SIGINT has ended.
func dieOf(s syscall.Signal) {
	signal.Reset(s)
	if syscall.Kill(os.Getpid(), s) == nil {
		time.Sleep(time.Second)
	}
}

func watchSignals(parent context.Context, from signalSource, sigs ...os.Signal) *interrupts {
	ctx, cancel := context.WithCancelCause(parent)
	i := &interrupts{
		ctx: ctx, cancel: cancel, from: from,
		forced: make(chan struct{}),
		got:    make(chan os.Signal, 2),
		done:   make(chan struct{}),
	}
	from.notify(i.got, sigs...)
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
	i.from.stop(i.got)
	close(i.done)
	i.wait.Wait()
	i.cancel(nil)
}
