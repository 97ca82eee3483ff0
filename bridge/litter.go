package bridge

import "golang.org/x/sys/unix"

// Bounds of what lies about before it is removed.
const (
	// litterMax is how many answered requests keep their files before somebody
	// is set to it, litterLimit before whoever answers does it.
	litterMax, litterLimit = 16, 64
	// litterBytes bounds what these files and the answers that were read hold:
	// little of the smallest bridge.
	litterBytes = 64 << 10
)

// litter is what answered calls leave: request files, and answers that the
// program has read. To remove them takes as long as to answer the next call,
// so it waits until nobody has asked for a moment, or until it is enough.
type litter struct {
	claims []claim
	acks   []string
	bytes  int64
	sweep  bool // somebody is set to it
}

// discard gives up a claimed file, and answers that the program has read.
func (s *FileServer) discard(cl claim, acks []string) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	l := &s.out.litter
	l.claims = append(l.claims, cl)
	l.acks = append(l.acks, acks...)
	l.bytes += cl.size
	for _, id := range acks {
		l.bytes += int64(s.out.kept[id].size)
	}
	switch {
	case s.out.closed || len(l.claims) >= litterLimit || l.bytes > litterBytes:
		s.sweep()
	case len(l.claims) >= litterMax && !l.sweep:
		l.sweep = true
		go s.tidy()
	case len(l.claims) == 1:
		s.w.turns.remind()
	}
}

// tidy removes what lies about, when nobody asks for anything.
func (s *FileServer) tidy() {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.sweep()
}

// sweep is tidy for who holds the lock.
func (s *FileServer) sweep() {
	l := &s.out.litter
	for _, cl := range l.claims {
		if cl.fd >= 0 {
			unix.Close(cl.fd)
		}
		if cl.name != "" && !s.out.closed {
			// A directory that could not be given back stays, unread.
			unix.Unlinkat(s.claims, cl.name, 0)
		}
	}
	if !s.out.closed {
		for _, id := range l.acks {
			s.remove(id)
		}
	}
	*l = litter{claims: l.claims[:0], acks: l.acks[:0]}
}
