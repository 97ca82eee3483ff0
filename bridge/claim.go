package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Claiming a request, in steps:
//
//  1. lstat: what is no regular file, or in TextDir no link, is never moved,
//     opened or read. (A directory moved out of what the program sees would be
//     a way out.)
//  2. rename into Claim, where no program changes names: from here on the name
//     means this inode.
//  3. openat2, without following and without waiting, and fstat: regular, one
//     name, our file system, an owner of ours, a size within the limit.
//  4. read what it holds, and a byte more to see whether it grows. The bytes
//     may still change behind us; what is decoded, recorded and run is this
//     one copy in memory.
//
// For a link of TextDir readlink takes the place of the last two.
//
// What can wait until the answer is there waits: closing and removing.

// claim is a request file that was taken out of the program's hands.
type claim struct {
	name string // in Claim; empty if nothing was moved
	fd   int    // -1 if it was not opened
	size int64  // as it was looked at, in bytes; what of it was read may be nothing
}

// openHow is how a request is opened (rule 2).
var openHow = unix.OpenHow{
	Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
	Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
}

// eagains bounds the repeats of openat2, which answers EAGAIN when a rename
// elsewhere crossed its way; a lease answers so as well, and lasts.
const eagains = 8

// take claims one request. The call is nil if it was answered at once. unsure
// tells that something is there that may have to be looked at again.
func (s *FileServer) take(h hint) (c *call, unsure bool) {
	name := reqPrefix + h.id + jsonSuffix
	var st unix.Stat_t
	err := s.named(h.place, func(dir int) error {
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, false // taken before, or gone
	case err != nil:
		return nil, true
	case st.Mode&unix.S_IFMT != h.place.kind():
		s.refuse(h, name, st)
		return nil, false
	case h.made:
		return nil, true // its end of writing will be told, or it is found again
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
		return nil, false
	case err != nil:
		return nil, true
	}
	return s.serve(h, claim{claimed, -1, st.Size}), false
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

// refuse answers for what is of another kind and removes it unread. A
// directory that is not empty stays, and is spoken of once.
func (s *FileServer) refuse(h hint, name string, st unix.Stat_t) {
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
		if s.out.known(h.id) {
			return
		}
	}
	// It neither follows nor opens. If it fails, the next scan meets it again.
	_ = s.named(h.place, func(dir int) error { return unix.Unlinkat(dir, name, flags) })
	s.admit(h, claim{fd: -1}, incoming{Request: s.request(h.id), fault: fault(CodeNotRegular)}, nil)
}

func (s *FileServer) request(id string) Request {
	return Request{ID: id, Via: ViaFile, Files: s.files}
}

// serve reads a claimed request and admits it.
func (s *FileServer) serve(h hint, cl claim) *call {
	r := incoming{Request: s.request(h.id)}
	if s.b.spent() {
		return s.admit(h, cl, r, nil)
	}
	var raw []byte
	if h.place == inText {
		raw, r.fault = s.readText(h, &cl)
	} else {
		raw, r.fault = s.read(h, &cl)
	}
	r.Bytes = int64(len(raw))
	if r.fault != nil {
		return s.admit(h, cl, r, nil)
	}
	sum := sha256.Sum256(raw)
	r.Digest = hex.EncodeToString(sum[:])
	w, e := decode(raw, h.id)
	r.Tool, r.args, r.fault = w.tool, w.args, e
	return s.admit(h, cl, r, w.acks)
}

// read reads a claimed request. What it returns is valid until the next read.
func (s *FileServer) read(h hint, cl *claim) ([]byte, *Error) {
	var err error
	cl.fd, err = openClaimed(s.claims, cl.name)
	switch {
	case errors.Is(err, unix.EAGAIN): // a lease: its writer still holds it
		return nil, fault(CodeChanging)
	case err != nil:
		return nil, fault(CodeNotRegular)
	}
	var st unix.Stat_t
	if err := unix.Fstat(cl.fd, &st); err != nil {
		return nil, fault(CodeNotRegular)
	}
	limit := s.b.options.RequestBytes
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		s.giveBack(h, cl)
		return nil, fault(CodeNotRegular)
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || st.Dev != s.device,
		st.Uid != s.owners[0] && st.Uid != s.owners[1]:
		return nil, fault(CodeNotRegular)
	case st.Size > limit:
		return nil, fault(CodeTooLarge, limit)
	}
	raw, err := s.fetch(cl.fd, st.Size+1)
	switch {
	case err != nil:
		return nil, fault(CodeNotRegular)
	case int64(len(raw)) != st.Size:
		return nil, fault(CodeChanging)
	}
	return raw, nil
}

// giveBack moves a directory that was swapped in between two steps back to
// the program. It must not stay where Claim is.
func (s *FileServer) giveBack(h hint, cl *claim) {
	err := s.h.Owner.Do(func() error {
		return unix.Renameat2(s.claims, cl.name, s.dirs[h.place], reqPrefix+h.id+jsonSuffix, unix.RENAME_NOREPLACE)
	})
	if err == nil {
		cl.name = ""
	}
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

// fetch reads up to limit bytes. It does not ask a second time whether a file
// has ended that gave less.
func (s *FileServer) fetch(fd int, limit int64) ([]byte, error) {
	buf := s.room(limit)
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		return buf[:max(n, 0)], err
	}
}

// room is space for n bytes of a request.
func (s *FileServer) room(n int64) []byte {
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	return s.buf[:n]
}

// admit passes a request to the broker, whose answer goes to a file.
func (s *FileServer) admit(h hint, cl claim, r incoming, acks []string) *call {
	if !s.out.expect(h.id) {
		// Its answer is there or on its way, and is the only one there is.
		return s.b.admit(r, func(Answer) { s.discard(cl, nil) })
	}
	return s.b.admit(r, func(a Answer) {
		s.reply(h, a)
		s.discard(cl, acks)
	})
}
