package bridge

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Handles are the directories of one bridge, of one mount but for Workspace.
// They were opened before any program ran and are closed by FileServer.Close.
//
// What a program sees of the file system must be a bind mount of a directory
// in which Claim is not: the kernel then keeps it from Claim even through a
// directory of its own that was moved there.
type Handles struct {
	// Flat is Dir itself, Req and Resp its parts. Claim is a directory of the
	// same file system that no program can see.
	Flat, Req, Resp, Claim *os.File
	// Workspace is where the program's files are; results that are too big
	// for an answer go there. It is not closed by the bridge.
	Workspace *os.File
	// Owner is whose the files are to be. Zero means the caller's.
	Owner dirfd.Owner
}

// place is a directory in which requests may appear.
type place int

const (
	inReq place = iota
	inFlat
	inText
	places
)

// kind is what a request is there, as lstat says it.
func (p place) kind() uint32 {
	if p == inText {
		return unix.S_IFLNK
	}
	return unix.S_IFREG
}

// Bounds of the file transport.
const (
	// queueMax is how many announced requests wait to be claimed; if there are
	// more, the directories are read instead.
	queueMax = 512
	// again is when a directory is read a second time after something may
	// have been missed (rule 16). While nothing may have been, no clock runs.
	again = 250 * time.Millisecond
	// settling is how long a file that nobody announced must have been left
	// alone before it is taken for whole.
	settling = 20 * time.Millisecond
	// lookPause is the least time between two readings.
	lookPause = 5 * time.Millisecond
	// A program that was refused more than floodAfter times gets no more than
	// a quarter of a processor for the next refusals: nobody charges it for
	// what the host does. floodPause is the longest pause at once.
	floodAfter = 1000
	floodPause = 50 * time.Millisecond
)

// hint is an announced request.
type hint struct {
	id    string
	place place
	// made tells that it was only created, and may not be written yet.
	made bool
}

// FileServer serves requests that come as files.
type FileServer struct {
	w       *Watcher
	b       *Broker
	h       Handles
	files   Files
	text    *os.File // handle of TextDir
	dirs    [places]int
	resp    int
	claims  int
	device  uint64
	owners  [2]uint32
	watches []int32
	ended   chan struct{}
	stop    chan struct{}
	wake    chan struct{} // holds a token when hints or rescan is new

	mu     sync.Mutex
	queue  []hint
	rescan bool
	junk   struct{ told, found, counted int }

	// Whoever claims holds working, and with it these.
	working sync.Mutex
	buf     []byte    // of one request and one byte more
	spare   []hint    // room for the next queue
	looked  time.Time // no reading of directories before this
	doubt   bool      // something is there that may have to be looked at again

	out replies
}

// ServeFiles begins to serve requests from h through b. It takes h over, but
// for Workspace, even if it fails.
func ServeFiles(w *Watcher, h Handles, b *Broker) (*FileServer, error) {
	s := &FileServer{
		w: w, b: b, h: h, files: NewFiles(h.Workspace, h.Owner),
		ended: make(chan struct{}), stop: make(chan struct{}), wake: make(chan struct{}, 1),
		rescan: true,
	}
	if err := s.open(); err != nil {
		s.forget()
		return nil, err
	}
	s.wake <- struct{}{}
	go s.loop()
	return s, nil
}

func (s *FileServer) open() error {
	for _, f := range []*os.File{s.h.Flat, s.h.Req, s.h.Resp, s.h.Claim} {
		if f == nil {
			return errors.New("cannot serve files: a directory handle is missing")
		}
	}
	if err := s.openText(); err != nil {
		return fmt.Errorf("cannot serve files: %w", err)
	}
	// The numbers stay valid until forget, which comes after their last use.
	s.dirs = [places]int{inReq: int(s.h.Req.Fd()), inFlat: int(s.h.Flat.Fd()), inText: int(s.text.Fd())}
	s.resp, s.claims = int(s.h.Resp.Fd()), int(s.h.Claim.Fd())
	var req, claim unix.Stat_t
	if err := errors.Join(unix.Fstat(s.dirs[inReq], &req), unix.Fstat(s.claims, &claim)); err != nil {
		return fmt.Errorf("cannot serve files: %w", err)
	}
	s.device, s.owners = claim.Dev, [2]uint32{req.Uid, uint32(os.Geteuid())}
	if s.h.Owner != (dirfd.Owner{}) {
		s.owners[1] = uint32(s.h.Owner.UID)
	}
	s.out.init()
	s.refill()
	for p, dir := range s.dirs {
		wd, err := s.w.add(dir, s, place(p))
		if err != nil {
			return err
		}
		s.watches = append(s.watches, wd)
	}
	return nil
}

// Close ends the service and closes the handles. It does not close the broker.
// It is idempotent.
func (s *FileServer) Close() error {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.ended
	return nil
}

// forget gives everything up. No answer is written after it.
func (s *FileServer) forget() {
	s.w.remove(s.watches...)
	s.working.Lock()
	defer s.working.Unlock()
	s.out.mu.Lock()
	s.out.closed = true
	s.sweep()
	s.out.mu.Unlock()
	for _, f := range []*os.File{s.h.Flat, s.h.Req, s.h.Resp, s.h.Claim, s.text} {
		if f != nil {
			f.Close()
		}
	}
}

// tell takes an event from the watcher; true if there is something to do. It
// does not wait.
func (s *FileServer) tell(p place, name []byte, mask uint32) bool {
	id, ok := requestID(string(name))
	if !ok {
		// Counted when it comes into being, not again when it is written.
		if mask&unix.IN_CLOSE_WRITE == 0 && !passing(string(name)) && !s.own(p, string(name)) {
			s.ignored(1, 0)
		}
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= queueMax {
		s.rescan = true
	} else {
		made := p != inText && mask&(unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE) == 0
		s.queue = append(s.queue, hint{id, p, made})
	}
	return true
}

// ignored counts files that are no requests, by events and by what a scan
// found: a file is often met by both.
func (s *FileServer) ignored(told, found int) {
	s.mu.Lock()
	s.junk.told += told
	s.junk.found = max(s.junk.found, found)
	more := max(s.junk.told, s.junk.found) - s.junk.counted
	s.junk.counted += more
	s.mu.Unlock()
	if more > 0 {
		s.b.ignore(int64(more))
	}
}

// own tells which names in Flat are not the program's.
func (s *FileServer) own(p place, name string) bool {
	if p != inFlat {
		return false
	}
	if name == ReqDir || name == RespDir || name == SDKDir {
		return true
	}
	return len(name) > len(respPrefix) && name[:len(respPrefix)] == respPrefix
}

// missed makes the server read its directories. It does not wait.
func (s *FileServer) missed() {
	s.mu.Lock()
	s.rescan = true
	s.mu.Unlock()
	s.signal()
}

// signal wakes the loop.
func (s *FileServer) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
