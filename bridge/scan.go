package bridge

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of reading a directory (rule 17).
const (
	// scanBatch is how many names are looked at together and served in the
	// order of their arrival.
	scanBatch = 1024
	// scanMax is how many names are read in one directory before the rest is
	// left for the next time.
	scanMax = 1 << 20
)

// found is a request that a scan met.
type found struct {
	hint
	changed unix.Timespec
}

// scan reads all directories and serves what is in them.
func (s *FileServer) scan() {
	junk := 0
	for p := range places {
		junk += s.scanDir(p)
	}
	s.ignored(0, junk)
}

// scanDir reads one directory and counts what is no request.
func (s *FileServer) scanDir(p place) (junk int) {
	fd := -1
	err := s.named(p, func(dir int) (err error) {
		// Its own read position; it starts at the beginning.
		fd, err = unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0 // the directory is gone, or stays closed to us
	}
	defer unix.Close(fd)
	buf := make([]byte, 32<<10)
	var names []string
	for total := 0; total < scanMax && !s.stopped(); {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			break
		}
		_, count, all := unix.ParseDirent(buf[:n], -1, nil)
		total += count
		for _, name := range all {
			if id, ok := requestID(name); ok {
				names = append(names, id)
			} else if !passing(name) && !s.own(p, name) {
				junk++
			}
		}
		if len(names) >= scanBatch {
			s.batch(p, names)
			names = names[:0]
		}
	}
	s.batch(p, names)
	return junk
}

// batch serves the requests of some names, oldest first. Files that are still
// new and were announced by nobody may be in the middle of being written.
func (s *FileServer) batch(p place, ids []string) {
	list := make([]found, 0, len(ids))
	now := time.Now()
	for _, id := range ids {
		var st unix.Stat_t
		if unix.Fstatat(s.dirs[p], reqPrefix+id+jsonSuffix, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		age := now.Sub(time.Unix(st.Ctim.Unix()))
		if st.Mode&unix.S_IFMT == unix.S_IFREG && age >= 0 && age < settling {
			s.doubt = true
			continue
		}
		list = append(list, found{hint{id: id, place: p}, st.Ctim})
	}
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.changed.Sec, b.changed.Sec), cmp.Compare(a.changed.Nsec, b.changed.Nsec))
	})
	for _, f := range list {
		if s.stopped() {
			return
		}
		s.one(f.hint)
	}
}
