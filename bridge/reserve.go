package bridge

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// The reserve is a few files in Claim that already have their block and inode,
// for errors that must be answered when the file system is full. They come in
// pairs: b<n> for the body, d<n> for the mark.

// refill makes the reserve complete again, as far as there is space. The
// caller holds the lock, or is alone.
func (s *FileServer) refill() {
	for len(s.out.spares) < reserved {
		n := strconv.FormatInt(s.out.next(), 10)
		if err := s.h.Owner.Do(func() error { return s.makeSpare(n) }); err != nil {
			return
		}
		s.out.spares = append(s.out.spares, n)
	}
}

// makeSpare makes one pair.
func (s *FileServer) makeSpare(n string) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(s.claims, "b"+n, flags, 0o644)
	if err != nil {
		return err
	}
	err = unix.Fallocate(fd, 0, 0, reserveBytes)
	if err == unix.EOPNOTSUPP {
		err = writeAll(fd, make([]byte, reserveBytes))
	}
	unix.Close(fd)
	if err == nil {
		err = unix.Mknodat(s.claims, "d"+n, unix.S_IFREG|0o444, 0)
	}
	if err != nil {
		unix.Unlinkat(s.claims, "b"+n, 0)
	}
	return err
}

// squeeze answers a call although the file system is full: what was read and
// old answers go first; then the error that there is no space takes the place of the answer;
// then the reserve. It neither waits nor tries without end.
func (s *FileServer) squeeze(h hint, a Answer, body []byte) error {
	s.sweep()
	err := s.put(h, body)
	for full(err) && s.evict(evictBatch, spare) > 0 {
		err = s.put(h, body)
	}
	if a.Err == nil || len(body) > reserveBytes {
		a.Value, a.Err = nil, fault(CodeNoSpace)
		body = appendAnswer(nil, h.id, a)
		if full(err) {
			err = s.put(h, body)
		}
	}
	if full(err) {
		err = s.h.Owner.Do(func() error { return s.fromReserve(h, body) })
	}
	if full(err) && s.evict(reserved, take) > 0 {
		err = s.put(h, body)
	}
	return err
}

// fromReserve answers with a pair of the reserve.
func (s *FileServer) fromReserve(h hint, body []byte) error {
	n, ok := s.takeSpare()
	if !ok {
		return unix.ENOSPC
	}
	fd, err := unix.Openat(s.claims, "b"+n, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = writeAll(fd, body)
	if err == nil {
		err = unix.Ftruncate(fd, int64(len(body)))
	}
	unix.Close(fd)
	if err == nil {
		err = unix.Renameat(s.claims, "b"+n, s.resp, respPrefix+h.id+jsonSuffix)
	}
	switch {
	case err != nil:
		return err
	case h.place == inText:
		return unix.Unlinkat(s.claims, "d"+n, 0)
	}
	return s.reservedMark(n, h.id)
}

// markAnyhow marks an answer although the file system is full. It is there and
// may have been read, so it is not taken back: in the worst case it stays
// without a mark.
func (s *FileServer) markAnyhow(id string) {
	mark := func() error { return s.mark(id) }
	s.sweep()
	err := s.h.Owner.Do(mark)
	for full(err) && s.evict(evictBatch, spare) > 0 {
		err = s.h.Owner.Do(mark)
	}
	if full(err) {
		if n, ok := s.takeSpare(); ok {
			err = s.h.Owner.Do(func() error { return s.reservedMark(n, id) })
			unix.Unlinkat(s.claims, "b"+n, 0)
		}
	}
	if full(err) && s.evict(reserved, take) > 0 {
		_ = s.h.Owner.Do(mark)
	}
}

// takeSpare takes a pair out of the reserve.
func (s *FileServer) takeSpare() (n string, ok bool) {
	last := len(s.out.spares) - 1
	if last < 0 {
		return "", false
	}
	n = s.out.spares[last]
	s.out.spares = s.out.spares[:last]
	return n, true
}

// reservedMark marks an answer with the mark of a pair.
func (s *FileServer) reservedMark(n, id string) error {
	return unix.Renameat(s.claims, "d"+n, s.resp, respPrefix+id+doneSuffix)
}
