package bridge

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// relieved is how long whoever leads a watcher may serve a request before
// another goroutine leads: some times what a call of a tool that does nothing
// takes, and too short for anybody to notice that their requests waited.
const relieved = time.Millisecond

// turns is who leads a watcher. The number of a turn is even while its
// goroutine reads events, and odd while it serves. A kernel timer that is set
// for each request sees to it that nobody serves for long while nobody reads:
// one system call, where a timer or goroutine of the runtime costs a thread
// that wakes up.
type turns struct {
	now   atomic.Uint64
	timer *os.File
	fd    int // of timer, for who leads
}

// newTurns begins with turn 0. lead is begun with each further turn that does
// not continue another; idle is called when nobody serves any more, and after
// remind.
func newTurns(lead func(turn uint64), idle func()) (*turns, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &turns{timer: os.NewFile(uintptr(fd), "timer"), fd: fd}
	go t.guard(lead, idle)
	return t, nil
}

// close ends the guard. Nobody leads any more.
func (t *turns) close() error { return t.timer.Close() }

// serve is called by who leads, before it serves.
func (t *turns) serve(turn uint64) {
	t.now.Store(turn + 1)
	t.remind()
}

// remind has idle called.
func (t *turns) remind() {
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(relieved))}
	// It fails for a bad descriptor or time only.
	_ = unix.TimerfdSettime(t.fd, 0, &in, nil)
}

// back is called when it has served: it leads on with the next turn, unless
// another does.
func (t *turns) back(turn uint64) (next uint64, ok bool) {
	return turn + 2, t.now.CompareAndSwap(turn+1, turn+2)
}

// guard lets another goroutine lead whenever the timer finds that one serves.
// It may have begun just now, with a timer that was set for the one before.
func (t *turns) guard(lead func(turn uint64), idle func()) {
	expirations := make([]byte, 8)
	for {
		if _, err := t.timer.Read(expirations); err != nil {
			return // closed
		}
		turn := t.now.Load()
		if turn%2 == 0 {
			go idle()
			continue
		}
		if t.now.CompareAndSwap(turn, turn+1) {
			go lead(turn + 1)
		}
		t.remind() // of what it leaves
	}
}
