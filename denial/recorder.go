//go:build linux

// Package denial answers the system calls that the sandbox's filter refuses
// with notice (seccomp user notification), each with its fixed error, and turns
// them into a bounded list of events and exact counts.
//
// It does not decide what is let out: the answers are errors, and the calls that
// may go on (socket for TCP and UDP, connect and sendto to loopback and AF_UNIX)
// go on into a network namespace without a route. It does not load filters and does not see
// what a filter refuses without notice.
//
// It needs Linux 5.5. Where the listener was installed without
// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (Linux 5.19), a signal makes the
// program issue the waiting call again, and each issue is counted: the counts
// are then "at least as many as attempts", and exact otherwise.
package denial

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultMaxEvents is how many events of each call are listed in full.
const DefaultMaxEvents = 32

// syncWakeUp is SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP of linux/seccomp.h.
const syncWakeUp = 1

// Options of a Recorder. The zero value is ready to use.
type Options struct {
	// MaxEvents is how many refusals of each system call are listed in full;
	// later ones are counted only. It is per call, so that a flood of one
	// kind does not hide the first of another. There are some 35 calls, and
	// an event takes at most 1 KiB. Zero means DefaultMaxEvents.
	MaxEvents int
	// Routed are the ranges that the network namespace has a route to: calls
	// to them go on, and whoever holds the other end decides. Nil means that
	// nothing but loopback does.
	Routed []netip.Prefix
	// Classify says in a word what kind of destination an address is, for
	// Summary.ByClass. Nil means that all are "address".
	Classify func(netip.Addr) string
	// IP says what becomes of IPv4 and IPv6 sockets for TCP and UDP.
	IP IPSockets
	// Started is the start of the run, from which Elapsed counts. Zero means
	// the call of Start.
	Started time.Time
}

// IPSockets is the answer to who wants an IPv4 or IPv6 socket for TCP or UDP.
type IPSockets int

const (
	// IPRefused is the answer of profile strict, and the zero value.
	IPRefused IPSockets = iota
	// IPAllowed lets the socket be made; see Recorder.MadeIP.
	IPAllowed
)

// Recorder serves one listener.
type Recorder struct {
	options  Options
	file     *os.File
	buf      []byte
	stopping atomic.Bool
	madeIP   atomic.Bool
	stop     sync.Once
	done     chan struct{}

	// Owned by the goroutine of Start until done is closed; Seen reads the
	// summary meanwhile.
	mu      sync.Mutex
	summary Summary
	listed  map[string]int
	err     error
}

// Start serves a listener until Stop, or until no process is left under its
// filter. It takes f over and closes it; f may be in blocking mode. An idle
// Recorder costs a goroutine, no thread.
func Start(f *os.File, o Options) *Recorder {
	if o.MaxEvents == 0 {
		o.MaxEvents = DefaultMaxEvents
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	r := &Recorder{options: o, done: make(chan struct{})}
	if r.err = r.open(f); r.err != nil {
		// Without a listener the kernel answers ENOSYS: still refused.
		close(r.done)
		return r
	}
	go func() {
		defer close(r.done)
		r.err = r.serve()
	}()
	return r
}

// open moves the listener to a descriptor that the run time's poller watches.
func (r *Recorder) open(f *os.File) error {
	defer f.Close()
	size, err := received()
	if err != nil {
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot use the seccomp listener: %w", err)
	}
	var fd int
	var errDup error
	if err := raw.Control(func(old uintptr) {
		fd, errDup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return fmt.Errorf("cannot use the seccomp listener: %w", err)
	}
	if errDup != nil {
		return fmt.Errorf("cannot duplicate the seccomp listener: %w", errDup)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("cannot make the seccomp listener non-blocking: %w", err)
	}
	// Linux 6.6: be woken on the caller's processor, and wake it there. A round
	// trip takes 13 to 15 µs with it and 18 to 60 without, on 2 busy
	// processors; an older kernel refuses, and everything works as well.
	unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, syncWakeUp)
	r.file = os.NewFile(uintptr(fd), "seccomp-listener")
	r.buf = make([]byte, size)
	return nil
}

// Stop ends serving and returns what was recorded. Calls that still wait, and
// all later ones, get ENOSYS from the kernel. It may be called more than once.
func (r *Recorder) Stop() Summary {
	r.stop.Do(func() {
		r.stopping.Store(true)
		if r.file != nil {
			r.file.Close()
		}
	})
	<-r.done
	return r.summary
}

// Seen returns what was recorded so far, and goes on. What a program did before
// it ended has been recorded: its calls waited for their answers.
func (r *Recorder) Seen() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.summary
	s.Events = slices.Clone(s.Events)
	s.ByCall, s.ByClass = maps.Clone(s.ByCall), maps.Clone(s.ByClass)
	return s
}

// MadeIP tells whether a program was let make an IPv4 or IPv6 socket. It was
// written down before the socket came to be.
func (r *Recorder) MadeIP() bool { return r.madeIP.Load() }

// Err is why serving ended before its time, nil when it did not; it waits for
// the end of serving, so it belongs after Stop.
func (r *Recorder) Err() error {
	<-r.done
	return r.err
}

// serve owns the record. It waits in the run time's poller.
func (r *Recorder) serve() error {
	// However serving ends, nobody may go on waiting for an answer.
	defer r.file.Close()
	conn, err := r.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot use the seccomp listener: %w", err)
	}
	var failed error
	err = conn.Read(func(fd uintptr) (over bool) {
		over, failed = r.drain(int(fd))
		return over || failed != nil
	})
	if failed != nil {
		return failed
	}
	if err != nil && !r.stopping.Load() { // Stop closes the file
		return fmt.Errorf("cannot wait for seccomp notifications: %w", err)
	}
	return nil
}

// drain answers what waits now. Over means that nothing more will come.
func (r *Recorder) drain(fd int) (over bool, err error) {
	for !r.stopping.Load() {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch _, err := unix.Poll(p, 0); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("cannot poll the seccomp listener: %w", err)
		}
		switch {
		case p[0].Revents&unix.POLLIN != 0:
			if err := r.answerOne(fd); err != nil {
				return false, err
			}
		case p[0].Revents != 0: // POLLHUP: the last process under the filter is gone
			return true, nil
		default:
			return false, nil
		}
	}
	return true, nil
}

// answerOne receives, records and answers one call.
func (r *Recorder) answerOne(fd int) error {
	switch err := receive(fd, r.buf); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINTR):
		return nil // the caller was killed, or we were signalled, in between
	case err != nil:
		return fmt.Errorf("cannot receive a seccomp notification: %w", err)
	}
	n, err := Decode(r.buf)
	if err != nil {
		return err
	}
	a := r.options.decide(n)
	switch {
	case a.errno != passOn:
		r.note(fd, n, a)
	case n.Call == unix.SYS_SOCKET:
		r.madeIP.Store(true)
	}
	for {
		switch err := respond(fd, r.buf, n.ID, a.errno); {
		case errors.Is(err, unix.EINTR):
		case err == nil, errors.Is(err, unix.ENOENT): // the caller was killed meanwhile
			return nil
		default:
			return fmt.Errorf("cannot answer a seccomp notification: %w", err)
		}
	}
}

// note counts a refusal and lists the first of its kind in full.
func (r *Recorder) note(fd int, n Notification, a answer) {
	name := callName(n.Call)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listed == nil {
		r.listed = make(map[string]int)
		r.summary.ByCall, r.summary.ByClass = make(map[string]int64), make(map[string]int64)
	}
	r.summary.Total++
	r.summary.ByCall[name]++
	if a.class != "" {
		r.summary.ByClass[a.class]++
	}
	if r.listed[name] >= r.options.MaxEvents {
		r.summary.Folded++
		return
	}
	r.listed[name]++
	e := a.event
	e.PID, e.Exe = process(n.TID), executable(n.TID)
	if !stillWaits(fd, n.ID) {
		// What was read from /proc and from memory may be of another
		// process; what was in registers is still true.
		e.PID, e.Exe = n.TID, ""
		if a.read {
			e = Event{PID: n.TID}
		}
	}
	e.Elapsed = time.Since(r.options.Started).Nanoseconds()
	e.Call, e.Errno = name, unix.ErrnoName(a.errno)
	r.summary.Events = append(r.summary.Events, e)
}
