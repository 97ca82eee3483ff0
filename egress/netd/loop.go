package netd

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop is the one goroutine through which bytes go: packets from the device
// into the stack, and what the stack and the sockets have for each other
// (relay). A round trip then costs no hand-over between threads. Waking one
// costs more than all its work: a few microseconds on a good day, 35 in a
// virtual machine whose processors sleep.
//
// Its system calls are made raw, past the scheduler, which would otherwise look
// after each; none waits for longer than pauseFor. So goroutines must not wait
// for anything but the loop while it does: who waits in the run time's poller is
// a guest.
type loop struct {
	epoll int
	bell  int // an eventfd: wakes the loop
	file  *os.File
	sleep syscall.RawConn // the epoll as the run time's poller has it
	ended chan struct{}

	device source // nil if packets come in otherwise

	// of the loop's own goroutine
	events [64]unix.EpollEvent
	last   time.Time // of the last event
	rested time.Time // when the poller last had its turn
	eager  bool      // the last event came soon
	over   bool      // a relay has ended
	room   [little]byte

	// guests are the calls that may wait in the run time's poller.
	guests atomic.Int32

	mu      sync.Mutex
	relays  map[int32]*relay
	next    int32
	due     []*relay
	resting bool // asleep, or about to be
	closed  bool
	heard   chan<- struct{}
}

// source is what packets come from.
type source interface {
	descriptor() int
	// receive takes some of the packets that are there.
	receive()
	// settle sends what was kept back for a packet to come.
	settle()
}

// Keys of what the loop watches besides relays, which have positive ones.
const (
	keyDevice = -1 - iota
	keyBell
	keySupervisor
)

// pauseFor is how long the loop waits for the next event in the kernel, without
// the scheduler's knowing, if the last one came as fast and there are no guests:
// going idle and back costs the scheduler two system calls and the time of its
// watching thread. In whole milliseconds.
const pauseFor = time.Millisecond

// turn is how long a busy loop may keep flows from the poller that they need.
const turn = 200 * time.Microsecond

func newLoop() (*loop, error) {
	l := &loop{relays: map[int32]*relay{}, ended: make(chan struct{}), bell: -1}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot watch descriptors: %w", err)
	}
	if err = unix.SetNonblock(l.epoll, true); err == nil { // or the poller does not take it
		l.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		err = l.watch(l.bell, keyBell, unix.EPOLLIN|unix.EPOLLET)
	}
	if err != nil {
		unix.Close(l.epoll)
		unix.Close(l.bell)
		return nil, fmt.Errorf("cannot watch descriptors: %w", err)
	}
	l.file = os.NewFile(uintptr(l.epoll), "epoll")
	if l.sleep, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		unix.Close(l.bell)
		return nil, fmt.Errorf("cannot watch descriptors: %w", err)
	}
	return l, nil
}

// hear watches the supervisor's socket. Whoever reads it is told when there is
// something, or the end; heard has room for one.
func (l *loop) hear(fd int, heard chan<- struct{}) error {
	l.mu.Lock()
	l.heard = heard
	l.mu.Unlock()
	if err := l.watch(fd, keySupervisor, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET); err != nil {
		return fmt.Errorf("cannot watch the supervisor's socket: %w", err)
	}
	return nil
}

// start begins; device may be nil.
func (l *loop) start(device source) error {
	if device != nil {
		l.device = device
		if err := l.watch(device.descriptor(), keyDevice, unix.EPOLLIN); err != nil {
			close(l.ended)
			return fmt.Errorf("cannot watch the device: %w", err)
		}
	}
	go l.run()
	return nil
}

func (l *loop) watch(fd int, key int32, events uint32) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: key})
}

func (l *loop) run() {
	defer close(l.ended)
	for {
		n := l.wait()
		if n < 0 {
			return
		}
		for i := range l.events[:n] {
			l.happened(&l.events[i])
		}
		yield() // the stack works on what has come in
		l.work()
		if l.over { // who has waited for it has more to do
			l.over = false
			yield()
		}
	}
}

// yield lets every goroutine that is ready have its turn, if there is one
// processor: who yields is put at the end of the scheduler's global queue, and
// that comes after the processor's own, but for each 61st turn, and not twice
// in a row. Without the second, one packet in 61 would lie in the stack while
// the loop pauses.
func yield() {
	runtime.Gosched()
	runtime.Gosched()
}

func (l *loop) happened(e *unix.EpollEvent) {
	switch e.Fd {
	case keyDevice:
		l.device.receive()
		return
	case keyBell:
		return
	case keySupervisor:
		l.mu.Lock()
		heard := l.heard
		l.mu.Unlock()
		select {
		case heard <- struct{}{}:
		default:
		}
		return
	}
	l.mu.Lock()
	r := l.relays[e.Fd]
	l.mu.Unlock()
	if r != nil {
		r.saw(e.Events)
		l.wake(r)
	}
}

// work works on what is due, once each.
func (l *loop) work() {
	l.mu.Lock()
	due := l.due
	l.due = nil
	for _, r := range due {
		r.due = false
	}
	l.mu.Unlock()
	for _, r := range due {
		if r.work() {
			l.wake(r)
		}
	}
}

// wait returns how many events there are; none if there is other work, less
// when the loop is over.
func (l *loop) wait() int {
	n, guests := 0, l.guests.Load() > 0
	switch {
	case !l.rest():
		n = l.poll(0)
	case l.eager && !guests:
		if n = l.poll(pauseFor); n == 0 {
			n = l.asleep()
		}
	default:
		n = l.asleep()
	}
	if n > 0 && guests && time.Since(l.rested) > turn {
		l.giveWay() // the events stay
	}
	l.mu.Lock()
	l.resting = false
	if l.closed {
		n = -1
	}
	l.mu.Unlock()
	now := time.Now()
	l.eager = now.Sub(l.last) < pauseFor
	l.last = now
	return n
}

// poll asks for events, and waits for them in the kernel, where the scheduler
// does not see it.
func (l *loop) poll(most time.Duration) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), uintptr(most.Milliseconds()), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// asleep waits for events as goroutines do. It does not fail: close waits for
// the loop.
func (l *loop) asleep() (n int) {
	if l.device != nil {
		l.device.settle()
	}
	slept := false
	_ = l.sleep.Read(func(uintptr) bool {
		n = l.poll(0)
		slept = slept || n == 0
		return n != 0
	})
	if slept {
		l.rested = time.Now()
	}
	return n
}

// giveWay goes to sleep and wakes up at once: the scheduler looks for what its
// other goroutines wait for only when none is ready.
func (l *loop) giveWay() {
	rung := false
	_ = l.sleep.Read(func(uintptr) bool {
		if !rung { // from here on the poller keeps what it sees
			rung = true
			l.strike()
			return false
		}
		return true
	})
	l.rested = time.Now()
}

// rest says that the loop is about to sleep, unless there is something to do.
func (l *loop) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting = len(l.due) == 0 && !l.closed
	return l.resting
}

// wake makes a relay due. One that is not taken in yet, or not any more, is left
// alone: it would end twice, and add makes it due in any case.
func (l *loop) wake(r *relay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.due || r.key == 0 {
		return
	}
	r.due = true
	l.due = append(l.due, r)
	l.ring()
}

// ring ends the loop's sleep; l.mu is held.
func (l *loop) ring() {
	if !l.resting {
		return
	}
	l.resting = false
	l.strike()
}

func (l *loop) strike() {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(l.bell), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

var errLoopOver = errors.New("the network has ended")

// add takes a relay in.
func (l *loop) add(r *relay, fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errLoopOver
	}
	for l.next = max(1, l.next+1); l.relays[l.next] != nil; l.next = max(1, l.next+1) {
	}
	if err := l.watch(fd, l.next, unix.EPOLLIN|unix.EPOLLPRI|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET); err != nil {
		return fmt.Errorf("cannot watch a connection: %w", err)
	}
	r.key = l.next
	l.relays[r.key] = r
	r.due = true
	l.due = append(l.due, r)
	l.ring()
	return nil
}

// remove forgets a relay; the descriptor may be closed, or about to be.
func (l *loop) remove(r *relay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.relays, r.key)
	r.key = 0
}

// close ends the loop and every relay.
func (l *loop) close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.ring()
	l.mu.Unlock()
	if again {
		return
	}
	<-l.ended
	l.mu.Lock()
	left := make([]*relay, 0, len(l.relays))
	for _, r := range l.relays {
		left = append(left, r)
	}
	l.mu.Unlock()
	for _, r := range left {
		r.end(errLoopOver)
	}
	l.file.Close()
	unix.Close(l.bell)
}
