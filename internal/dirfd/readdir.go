package dirfd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ReadDirNames reads the names in dir from its read position on, at most limit
// of them, in the kernel's order and without "." and "..". more tells that
// there is at least one further name. Nothing is said of the names: they may
// hold any byte but a slash and NUL.
//
// Memory and time are bounded by limit, not by the directory, even while a
// program keeps adding to it. dir must not be an O_PATH handle; see Reopen.
func ReadDirNames(dir *os.File, limit int) (names []string, more bool, err error) {
	buf := make([]byte, 16<<10)
	err = control(dir, func(fd int) error {
		for {
			n, err := retry(func() (int, error) { return unix.Getdents(fd, buf) })
			if err != nil || n <= 0 {
				return err
			}
			for rest := buf[:n]; len(rest) > 0; {
				// One more than the limit, to learn whether there is more.
				used, _, found := unix.ParseDirent(rest, limit+1-len(names), names)
				names, rest = found, rest[used:]
				if len(names) > limit {
					names, more = names[:limit], true
					return nil
				}
			}
		}
	})
	if err != nil {
		return nil, false, fmt.Errorf("cannot read directory: %w", err)
	}
	return names, more, nil
}
