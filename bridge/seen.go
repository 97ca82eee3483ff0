package bridge

import "hash/maphash"

// seenMax is how many ids a generation of seenIDs holds. A kept sandbox may
// make calls without end; its memory must not grow with them.
const seenMax = 1 << 15

// seenIDs remembers at least the last seenMax ids exactly once each. It holds
// digests of 128 bits under secret keys, so that no program can make two ids
// meet. An id older than that may serve again; it is then one more call, with
// its own admission, record and place in the count.
type seenIDs struct {
	keys     [2]maphash.Seed
	new, old map[[2]uint64]struct{}
}

// add notes an id; false if it is there already.
func (s *seenIDs) add(id string) bool {
	if s.new == nil {
		s.keys = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		s.new = map[[2]uint64]struct{}{}
	}
	d := [2]uint64{maphash.String(s.keys[0], id), maphash.String(s.keys[1], id)}
	if _, ok := s.new[d]; ok {
		return false
	}
	if _, ok := s.old[d]; ok {
		return false
	}
	if len(s.new) >= seenMax {
		s.old, s.new = s.new, map[[2]uint64]struct{}{}
	}
	s.new[d] = struct{}{}
	return true
}
