package host

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Errno is an error number that reads and writes itself by name: "EPERM".
// 0 is no error and the empty name.
type Errno syscall.Errno

// Name is the kernel's name of the number.
func (e Errno) Name() string {
	if e == 0 {
		return ""
	}
	if n := unix.ErrnoName(syscall.Errno(e)); n != "" {
		return n
	}
	return fmt.Sprintf("errno-%d", uint(e))
}

// String is the name with the usual sentence: "EPERM (operation not permitted)".
func (e Errno) String() string {
	if e == 0 {
		return "no error"
	}
	return e.Name() + " (" + syscall.Errno(e).Error() + ")"
}

// MarshalText gives the name.
func (e Errno) MarshalText() ([]byte, error) { return []byte(e.Name()), nil }

// UnmarshalText takes the names that MarshalText gives.
func (e *Errno) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*e = 0
		return nil
	}
	for n := Errno(1); n < 4096; n++ { // MAX_ERRNO of the kernel is 4095
		if n.Name() == string(b) {
			*e = n
			return nil
		}
	}
	return fmt.Errorf("cannot read error name %q", b)
}

// errnoOf finds the number in an error. One without a number counts as EIO.
func errnoOf(err error) Errno {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return Errno(e)
	}
	return Errno(unix.EIO)
}
