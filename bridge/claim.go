package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Claiming a request, in steps:
//
//  1. lstat: what is no regular file is never moved, opened or read. (A
//     directory moved out of what the program sees would be a way out.)
//  2. rename into Claim, where no program changes names: from here on the name
//     means this inode.
//  3. lstat: regular, one name, our file system, an owner of ours, a size.
//  4. openat2, read at most one byte over the limit, fstat: nothing changed
//     meanwhile. The bytes may still change behind us; what is decoded,
//     recorded and run is this one copy in memory.

// openHow is how a request is opened (rule 2).
var openHow = unix.OpenHow{
	Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
	Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
}

// eagains bounds the repeats of openat2, which answers EAGAIN when a rename
// elsewhere crossed its way; a lease answers so as well, and lasts.
const eagains = 8

// take claims and serves one request. unsure tells that something is there
// that may have to be looked at again.
func (s *FileServer) take(h hint) (unsure bool) {
	name := reqPrefix + h.name + jsonSuffix
	var st unix.Stat_t
	err := s.named(h.place, func(dir int) error {
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return false // taken before, or gone
	case err != nil:
		return true
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		s.refuse(h, name, st)
		return false
	case h.made:
		return true // its end of writing will be told, or it is found again
	}
	claimed := "c" + strconv.FormatInt(s.out.next(), 10)
	err = s.named(h.place, func(dir int) error {
		// A root outside the sandbox has no id in this file system, and who
		// has none may not make names there (EOVERFLOW).
		return s.h.Owner.Do(func() error {
			return unix.Renameat2(dir, name, s.claims, claimed, unix.RENAME_NOREPLACE)
		})
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return false
	case err != nil:
		return true
	}
	s.serve(h, claimed)
	return false
}

// named calls on a name in a directory of the program's. It may have taken
// away the right to search there; the directory is ours to give it back.
func (s *FileServer) named(p place, call func(dir int) error) error {
	dir := s.dirs[p]
	err := call(dir)
	if errors.Is(err, unix.EACCES) && unix.Fchmod(dir, 0o700) == nil {
		err = call(dir)
	}
	return err
}

// refuse answers for what is no regular file and removes it unread. A
// directory that is not empty stays, and is spoken of once.
func (s *FileServer) refuse(h hint, name string, st unix.Stat_t) {
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
		if s.out.known(h.name) {
			return
		}
	}
	// It neither follows nor opens. If it fails, the next scan meets it again.
	_ = s.named(h.place, func(dir int) error { return unix.Unlinkat(dir, name, flags) })
	s.admit(h, "", incoming{Request: s.request(h.name), fault: fault(CodeNotRegular)}, nil)
}

func (s *FileServer) request(id string) Request {
	return Request{ID: id, Via: ViaFile, Files: s.files}
}

// serve reads a claimed request and admits it.
func (s *FileServer) serve(h hint, claimed string) {
	r := incoming{Request: s.request(h.name)}
	if s.b.spent() {
		s.admit(h, claimed, r, nil)
		return
	}
	raw, e := s.read(h, claimed)
	r.Bytes, r.fault = int64(len(raw)), e
	if e != nil {
		s.admit(h, claimed, r, nil)
		return
	}
	sum := sha256.Sum256(raw)
	r.Digest = hex.EncodeToString(sum[:])
	w, e := decode(raw, h.name)
	r.Tool, r.args, r.fault = w.tool, w.args, e
	s.admit(h, claimed, r, w.acks)
}

// read reads a claimed request. What it returns is valid until the next read.
func (s *FileServer) read(h hint, claimed string) ([]byte, *Error) {
	var before, after unix.Stat_t
	if err := unix.Fstatat(s.claims, claimed, &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, fault(CodeNotRegular)
	}
	limit := s.b.options.RequestBytes
	switch {
	case before.Mode&unix.S_IFMT == unix.S_IFDIR:
		// Swapped in between two steps. It must not stay where Claim is.
		unix.Renameat2(s.claims, claimed, s.dirs[h.place], reqPrefix+h.name+jsonSuffix, unix.RENAME_NOREPLACE)
		return nil, fault(CodeNotRegular)
	case before.Mode&unix.S_IFMT != unix.S_IFREG || before.Nlink != 1 || before.Dev != s.device,
		before.Uid != s.owners[0] && before.Uid != s.owners[1]:
		return nil, fault(CodeNotRegular)
	case before.Size > limit:
		return nil, fault(CodeTooLarge, limit)
	}
	fd, err := openClaimed(s.claims, claimed)
	switch {
	case errors.Is(err, unix.EAGAIN): // a lease: its writer still holds it
		return nil, fault(CodeChanging)
	case err != nil:
		return nil, fault(CodeNotRegular)
	}
	defer unix.Close(fd)
	raw, err := s.fetch(fd, before.Size)
	if err == nil {
		err = unix.Fstat(fd, &after)
	}
	switch {
	case err != nil || !dirfd.Same(before, after):
		return nil, fault(CodeNotRegular)
	case int64(len(raw)) != before.Size || after.Size != before.Size || after.Mtim != before.Mtim:
		return nil, fault(CodeChanging)
	}
	return raw, nil
}

func openClaimed(dir int, name string) (fd int, err error) {
	for range eagains {
		fd, err = unix.Openat2(dir, name, &openHow)
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	if err == unix.ENOSYS || err == unix.EPERM {
		// An outer filter hides openat2. The name is one component of ours.
		fd, err = unix.Openat(dir, name, int(openHow.Flags), 0)
	}
	return fd, err
}

// fetch reads up to size bytes and one more, which tells that there are more.
func (s *FileServer) fetch(fd int, size int64) ([]byte, error) {
	if int64(cap(s.buf)) < size+1 {
		s.buf = make([]byte, size+1)
	}
	buf := s.buf[:size+1]
	n := 0
	for n < len(buf) {
		m, err := unix.Read(fd, buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

// admit passes a request to the broker, whose answer goes to a file.
func (s *FileServer) admit(h hint, claimed string, r incoming, acks []string) {
	if !s.out.expect(h.name) {
		// Its answer is there or on its way, and is the only one there is.
		if c := s.b.admit(r, func(Answer) { s.drop(claimed) }); c != nil {
			s.b.begin(c)
		}
		return
	}
	c := s.b.admit(r, func(a Answer) {
		s.reply(h, a)
		s.drop(claimed)
		s.acknowledge(acks)
	})
	if c != nil {
		s.b.begin(c)
	}
}
