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
// share one inotify instance, of which a user has few. It waits in the
// runtime's poller: while nothing happens, nothing runs.
type Watcher struct {
	inotify *os.File
	ended   chan struct{}

	mu    sync.Mutex
	watch map[int32]watched
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
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		return nil, fmt.Errorf("cannot make an inotify instance: %w; raise fs.inotify.max_user_instances", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make an inotify instance: %w", err)
	}
	w := &Watcher{inotify: os.NewFile(uintptr(fd), "inotify"), ended: make(chan struct{}), watch: map[int32]watched{}}
	go w.lead(make([]byte, watchBuffer))
	return w, nil
}

// Close ends the watcher. It is idempotent.
func (w *Watcher) Close() error {
	err := w.inotify.Close()
	<-w.ended
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// add watches the directory of an open handle, by the handle and not by any
// path it may have.
func (w *Watcher) add(dir int, s *FileServer, p place) (int32, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd := -1
	err := w.control(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir), watchMask)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOSPC):
		return 0, fmt.Errorf("cannot watch the bridge: %w; raise fs.inotify.max_user_watches", err)
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
		// It fails if the directory is gone, and its watch with it.
		_ = w.control(func(fd int) error {
			_, err := unix.InotifyRmWatch(fd, uint32(wd))
			return err
		})
	}
}

func (w *Watcher) control(call func(fd int) error) error {
	conn, err := w.inotify.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := conn.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return err
	}
	return callErr
}

// lead hands events out until the instance is closed. For the first server
// that has something to do it does the work itself, tool and all, and lets
// another goroutine lead: the usual call then never waits for a second one to
// be woken.
func (w *Watcher) lead(buf []byte) {
	for {
		n, err := w.inotify.Read(buf)
		if err != nil {
			// Closed; or it will not get better. Whoever waits looks for
			// himself from now on.
			w.lost()
			close(w.ended)
			return
		}
		if s := w.hand(buf[:n]); s != nil {
			go w.lead(buf)
			s.help()
			return
		}
	}
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
