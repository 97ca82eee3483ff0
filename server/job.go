package server

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// job is how the process outside stands to the terminal that it gave us. The
// kernel keeps what is in the background of a terminal, or stopped, away from
// it; but it does so only for the processes of the terminal's session, and we
// are none. So we look how the other stands, and have it stopped where the
// kernel would have done that.
type job struct {
	pid int
	// stop asks the process outside to send a signal to its process group.
	stop func(syscall.Signal)

	mu      sync.Mutex
	changed *sync.Cond
	turns   int  // how often it was continued
	stays   int  // how often it could not be stopped
	ending  bool // it was asked to end: it is not to be stopped any more
}

func newJob(pid int, stop func(syscall.Signal)) *job {
	j := &job{pid: pid, stop: stop}
	j.changed = sync.NewCond(&j.mu)
	return j
}

// heard takes a signal that the process outside got, and says whether the job
// alone wanted to know of it.
func (j *job) heard(sig syscall.Signal) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.changed.Broadcast()
	switch sig {
	case unix.SIGCONT:
		j.turns++
	case unix.SIGTTIN, unix.SIGTTOU:
		j.stays++
	case unix.SIGWINCH:
		return false
	default:
		j.ending = true
		return false
	}
	return true
}

// look has those who wait look whether they still have to.
func (j *job) look() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changed.Broadcast()
}

// use is what somebody is about to do with a terminal.
type use int

const (
	toRead use = iota
	toWrite
	toSet // its modes
)

// await returns when the process outside could do that with its terminal:
// os.ErrClosed says that nobody is to any more, EIO that it must not and cannot
// be stopped, as the kernel says.
func (j *job) await(t *Stdio, what use) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		turns, stays := j.turns, j.stays
		switch {
		case j.ending && what == toWrite:
			return nil // the last words
		case j.ending || t.isClosed():
			return os.ErrClosed
		}
		j.mu.Unlock()
		is := j.standing(t, what)
		if is == background {
			j.stop(what.signal())
		}
		j.mu.Lock()
		if is == foreground {
			return nil
		}
		for turns == j.turns && stays == j.stays && !j.ending && !t.isClosed() {
			j.changed.Wait()
		}
		if turns == j.turns && stays != j.stays {
			return unix.EIO
		}
	}
}

func (u use) signal() syscall.Signal {
	if u == toRead {
		return unix.SIGTTIN
	}
	return unix.SIGTTOU
}

// standing is where a process is, as seen from a terminal.
type standing int

const (
	foreground standing = iota // or not of its session
	background
	stopped
)

// standing looks. A process that cannot be seen is held back by nobody.
func (j *job) standing(t *Stdio, what use) standing {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(j.pid) + "/stat")
	if err != nil {
		return foreground
	}
	// the name before it may have anything in it: state, parent, group, session,
	// terminal, and the group in its foreground
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 6 {
		return foreground
	}
	tty, err := strconv.Atoi(string(f[4]))
	switch {
	case string(f[0]) == "T":
		return stopped
	case err != nil || uint32(tty) != t.tty || bytes.Equal(f[2], f[5]):
		return foreground
	case what == toWrite && !t.holdsWriters():
		return foreground
	}
	return background
}
