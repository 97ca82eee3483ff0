package dirfd

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setFilter puts a seccomp filter on this thread only.
func setFilter(filter []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
	runtime.KeepAlive(filter)
	return err
}
