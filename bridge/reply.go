package bridge

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of answers that wait to be read.
const (
	// keptMax is how many answered calls are remembered; the oldest answers
	// go when there are more.
	keptMax = 4096
	// An answer that was not acknowledged goes when space is short and it is
	// older than evictAge or not among the evictLast last ones; only then do
	// younger ones go, oldest first.
	evictAge  = time.Second
	evictLast = 2 * (DefaultParallel + DefaultMaxPending)
	// evictBatch is how many go before it is tried again.
	evictBatch = 64
	// reserved is how many errors can be answered when no space is left
	// (rule 14), and reserveBytes what each may be long.
	reserved     = 8
	reserveBytes = 4 << 10
)

// replies is what is known of answers. The lock is held while one is written:
// they are short, and the file system's own locks would queue them anyway.
type replies struct {
	counter atomic.Int64 // makes names in Claim

	mu       sync.Mutex
	closed   bool
	expected map[string]struct{} // claimed, not answered
	kept     map[string]kept     // answered, not removed
	order    []string            // of kept, oldest first; may hold ids that are gone
	spares   []string            // numbers of reserve files in Claim
	litter   litter
}

// kept is an answer that is there.
type kept struct {
	at    time.Time
	place place // of the request
	size  int   // bytes
}

func (r *replies) init() {
	r.expected, r.kept = map[string]struct{}{}, map[string]kept{}
}

// next makes a number that is used once.
func (r *replies) next() int64 { return r.counter.Add(1) }

// expect notes that an id will be answered; false if it is already, or will
// be.
func (r *replies) expect(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.expected[id]; ok {
		return false
	}
	if _, ok := r.kept[id]; ok {
		return false
	}
	r.expected[id] = struct{}{}
	return true
}

// known tells whether an id is or will be answered.
func (r *replies) known(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, e := r.expected[id]
	_, k := r.kept[id]
	return e || k
}

// reply writes the answer of a request and keeps account of it.
func (s *FileServer) reply(h hint, a Answer) {
	body := appendAnswer(make([]byte, 0, 256+len(a.Value)), h.id, a)
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	delete(s.out.expected, h.id)
	if s.out.closed {
		return
	}
	err := s.put(h, body)
	if full(err) {
		err = s.squeeze(h, a, body)
	}
	if err != nil {
		// Only this call fails: its program waits until its own time is over.
		return
	}
	s.out.kept[h.id] = kept{time.Now(), h.place, len(body)}
	s.out.order = append(s.out.order, h.id)
	if h.place == inFlat {
		s.link(h.id)
	}
	switch {
	case len(s.out.kept) > keptMax:
		s.evict(1, take)
	case (len(body) > 1<<16 || len(s.out.order)%16 == 0) && s.scarce():
		s.evict(evictBatch, spare)
	}
	s.trim()
	if len(s.out.spares) < reserved {
		s.refill()
	}
}

// put makes both files of an answer: whole under another name, renamed, then
// marked done. It leaves nothing behind if it fails. Whoever asked by a text
// waits for no mark.
func (s *FileServer) put(h hint, body []byte) error {
	var unmarked bool
	err := s.h.Owner.Do(func() error {
		if h.place == inText && len(body) <= textMax {
			return s.putText(h.id, body)
		}
		if err := s.write(h.id, body); err != nil {
			return err
		}
		unmarked = h.place != inText && s.mark(h.id) != nil
		return nil
	})
	if unmarked {
		s.markAnyhow(h.id)
	}
	return err
}

// write makes the answer itself. From the rename on it is there: our modules
// wait for no mark.
func (s *FileServer) write(id string, body []byte) error {
	// In Claim: whoever watches Resp would be woken for each step.
	temp := "a" + strconv.FormatInt(s.out.next(), 10)
	fd, err := unix.Openat(s.claims, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	defer unix.Close(fd) // not before the rename: it can wait
	err = writeAll(fd, body)
	if err == nil {
		// It replaces a file or link of that name and follows nothing.
		err = unix.Renameat(s.claims, temp, s.resp, respPrefix+id+jsonSuffix)
	}
	if err != nil {
		unix.Unlinkat(s.claims, temp, 0)
	}
	return err
}

// mark tells that an answer is there to those who watch for a new file.
func (s *FileServer) mark(id string) error {
	done := respPrefix + id + doneSuffix
	err := unix.Mknodat(s.resp, done, unix.S_IFREG|0o444, 0)
	if errors.Is(err, unix.EEXIST) {
		unix.Unlinkat(s.resp, done, 0)
		err = unix.Mknodat(s.resp, done, unix.S_IFREG|0o444, 0)
	}
	return err
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// full tells the errors of a file system without space or inodes.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// link gives an answer its names in Flat too. What a program put there is
// removed, not followed.
func (s *FileServer) link(id string) {
	_ = s.h.Owner.Do(func() error {
		for _, suffix := range []string{jsonSuffix, doneSuffix} {
			name := respPrefix + id + suffix
			err := unix.Linkat(s.resp, name, s.dirs[inFlat], name, 0)
			if errors.Is(err, unix.EEXIST) {
				unix.Unlinkat(s.dirs[inFlat], name, 0)
				err = unix.Linkat(s.resp, name, s.dirs[inFlat], name, 0)
			}
			if err != nil {
				return err // the answer in Resp is still there
			}
		}
		return nil
	})
}

// remove removes the files of an answer, if it is there.
func (s *FileServer) remove(id string) bool {
	k, ok := s.out.kept[id]
	if !ok {
		return false
	}
	delete(s.out.kept, id)
	for _, suffix := range []string{doneSuffix, jsonSuffix} {
		if suffix == doneSuffix && k.place == inText {
			continue // it has none
		}
		unix.Unlinkat(s.resp, respPrefix+id+suffix, 0)
		if k.place == inFlat {
			unix.Unlinkat(s.dirs[inFlat], respPrefix+id+suffix, 0)
		}
	}
	return true
}

// evict removes up to n of the oldest answers. Those that may not have been
// read yet, by their age and their number, are spared if young says so.
func (s *FileServer) evict(n int, young mercy) (removed int) {
	for len(s.out.order) > 0 && removed < n {
		id := s.out.order[0]
		k, ok := s.out.kept[id]
		if ok && young == spare && len(s.out.kept) <= evictLast && time.Since(k.at) < evictAge {
			break
		}
		s.out.order = s.out.order[1:]
		if s.remove(id) {
			removed++
		}
	}
	return removed
}

// scarce tells that less than a quarter of the file system is free. Room is
// made then, before the program cannot write its next request.
func (s *FileServer) scarce() bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(s.resp, &fs) != nil {
		return false
	}
	return fs.Bavail < fs.Blocks/4 || fs.Ffree < fs.Files/4
}

// mercy is what becomes of answers that may not have been read yet.
type mercy int

const (
	spare mercy = iota
	take
)

// trim forgets the order of answers that are gone.
func (s *FileServer) trim() {
	if len(s.out.order) < 2*len(s.out.kept)+64 {
		return
	}
	order := make([]string, 0, len(s.out.kept))
	for _, id := range s.out.order {
		if _, ok := s.out.kept[id]; ok {
			order = append(order, id)
		}
	}
	s.out.order = order
}
