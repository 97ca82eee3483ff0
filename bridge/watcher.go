package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher tells the file servers of a process that something has changed. All
// share one inotify instance, of which a user has few.
//
// One thread waits in the kernel for events; while there are none, nothing
// runs. It is not the runtime's poller that waits: to wake a goroutine through
// that takes several system calls and a second thread, of which the usual call
// would pay for each.
type Watcher struct {
	inotify int
	own     int32 // a watch whose removal ends the reading
	turns   *turns
	ended   chan struct{}

	mu     sync.Mutex
	closed bool
	watch  map[int32]watched
}

// watched is whose directory a watch is.
type watched struct {
	s     *FileServer
	place place
}

// watchMask is what is told of a directory. A rename into it and the end of
// writing announce a request; a creation alone announces what never gets
// written: links, FIFOs, sockets, directories.
const watchMask = unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// watchBuffer is how many bytes of events one read takes.
const watchBuffer = 64 << 10

// NewWatcher makes a watcher. Close ends it, after the servers.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if errors.Is(err, unix.EMFILE) {
		return nil, fmt.Errorf("cannot make an inotify instance: %v; raise fs.inotify.max_user_instances", err) // %v: it is no file that is one too many
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make an inotify instance: %w", err)
	}
	w := &Watcher{inotify: fd, ended: make(chan struct{}), watch: map[int32]watched{}}
	// Any directory does: nothing is to be learnt of it.
	own, err := unix.InotifyAddWatch(fd, "/", unix.IN_DELETE_SELF|unix.IN_ONLYDIR)
	if err == nil {
		w.own = int32(own)
		w.turns, err = newTurns(w.lead, w.tidy)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot watch for requests: %w", err)
	}
	go w.lead(0)
	return w, nil
}

// Close ends the watcher. It is idempotent.
func (w *Watcher) Close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	if first {
		// Whoever reads next finds the end of this watch.
		_, _ = unix.InotifyRmWatch(w.inotify, uint32(w.own))
	}
	w.mu.Unlock()
	<-w.ended
	if !first {
		return nil
	}
	return errors.Join(w.turns.close(), unix.Close(w.inotify))
}

// add watches the directory of an open handle, by the handle and not by any
// path it may have.
func (w *Watcher) add(dir int, s *FileServer, p place) (int32, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, fmt.Errorf("cannot watch the bridge: %w", os.ErrClosed)
	}
	wd, err := unix.InotifyAddWatch(w.inotify, fmt.Sprintf("/proc/self/fd/%d", dir), watchMask)
	switch {
	case errors.Is(err, unix.ENOSPC):
		return 0, fmt.Errorf("cannot watch the bridge: %v; raise fs.inotify.max_user_watches", err) // %v: it is no disk that is full
	case err != nil:
		return 0, fmt.Errorf("cannot watch the bridge: %w", err)
	}
	w.watch[int32(wd)] = watched{s, p}
	return int32(wd), nil
}

// remove forgets watches. Their last events may still be on their way.
func (w *Watcher) remove(wds ...int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wd := range wds {
		delete(w.watch, wd)
		if !w.closed {
			// It fails if the directory is gone, and its watch with it.
			_, _ = unix.InotifyRmWatch(w.inotify, uint32(wd))
		}
	}
}

// lead hands events out until it is relieved or the watcher is closed. For the
// first server that has something to do it does the work itself, tool and all:
// the usual call is over before another goroutine would have been woken.
func (w *Watcher) lead(turn uint64) {
	buf := make([]byte, watchBuffer)
	for {
		n, err := unix.Read(w.inotify, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			// It will not get better. Whoever waits looks for himself from
			// now on.
			w.lost()
		}
		if err != nil || w.over() {
			close(w.ended)
			return
		}
		s := w.hand(buf[:n])
		if s == nil {
			continue
		}
		w.turns.serve(turn)
		s.help()
		var ok bool
		if turn, ok = w.turns.back(turn); !ok {
			return
		}
	}
}

// tidy lets every server remove what its calls have left.
func (w *Watcher) tidy() {
	w.mu.Lock()
	servers := make([]*FileServer, 0, len(w.watch))
	for _, at := range w.watch {
		if at.place == inReq {
			servers = append(servers, at.s)
		}
	}
	w.mu.Unlock()
	for _, s := range servers {
		s.tidy()
	}
}

func (w *Watcher) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// hand gives each event to its server, and returns one of those that have
// something to do; the others are woken. The kernel pads names with NULs.
func (w *Watcher) hand(events []byte) (first *FileServer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events[0:]))
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		name := events[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size]
		events = events[unix.SizeofInotifyEvent+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, at := range w.watch {
				at.s.missed()
			}
			continue
		}
		at, ok := w.watch[wd]
		if !ok {
			continue
		}
		if mask&(unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
			at.s.missed()
			continue
		}
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		if !at.s.tell(at.place, name, mask) {
			continue
		}
		if first == nil {
			first = at.s
		} else if first != at.s {
			at.s.signal()
		}
	}
	return first
}

// lost tells every server to look for itself, once.
func (w *Watcher) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.watch {
		at.s.missed()
	}
}
