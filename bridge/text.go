package bridge

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// A text is a small request or answer that is the text of a symbolic link. The
// kernel makes it whole under its name at once and never changes it, and no
// file need be opened, written or read for it: it takes a quarter of the time.
// Nobody follows such a link: the host looks at it (lstat), moves it (rename),
// reads its text (readlink) and removes it, and no call of these resolves it.

// textMax is how long a text may be, in bytes: the kernel's longest path
// without the NUL at its end.
const textMax = unix.PathMax - 1

// openText makes and opens TextDir. No program has run yet; if one had, the
// worst it could leave there is another directory of its own.
func (s *FileServer) openText() error {
	return s.h.Owner.Do(func() (err error) {
		s.text, err = dirfd.MkdirBeneath(s.h.Req, TextDir, 0o700)
		if errors.Is(err, os.ErrExist) {
			s.text, err = dirfd.OpenBeneath(s.h.Req, TextDir, unix.O_RDONLY|unix.O_DIRECTORY)
		}
		return err
	})
}

// readText reads a claimed request that was a link when it was looked at. What
// it returns is valid until the next read.
func (s *FileServer) readText(h hint, cl *claim) ([]byte, *Error) {
	buf := s.room(textMax)
	n, err := unix.Readlinkat(s.claims, cl.name, buf)
	if err != nil {
		var st unix.Stat_t
		if unix.Fstatat(s.claims, cl.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			s.giveBack(h, cl)
		}
		return nil, fault(CodeNotRegular)
	}
	if limit := s.b.options.RequestBytes; int64(n) > limit {
		return nil, fault(CodeTooLarge, limit)
	}
	return buf[:n], nil
}

// putText answers with a text. What has its name is removed, not followed.
func (s *FileServer) putText(id string, body []byte) error {
	text, name := string(body), respPrefix+id+jsonSuffix
	err := unix.Symlinkat(text, s.resp, name)
	if err == unix.EEXIST {
		unix.Unlinkat(s.resp, name, 0)
		err = unix.Symlinkat(text, s.resp, name)
	}
	return err
}
