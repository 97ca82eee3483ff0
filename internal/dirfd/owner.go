package dirfd

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Owner is who new files belong to: kernel ids. The zero value is the caller.
//
// A file system that belongs to a user namespace takes no file of an id that
// is not mapped there. A caller that is root, whose sandboxes run as another
// id, therefore makes files as that id.
type Owner struct{ UID, GID int }

// Do calls make with the owner's file system ids, on a thread of its own for
// that time. make must not start goroutines that it expects to share them.
func (o Owner) Do(make func() error) error {
	if o == (Owner{}) {
		return make()
	}
	runtime.LockOSThread()
	oldUID, oldGID := fsuid(-1), fsgid(-1)
	fsgid(o.GID)
	fsuid(o.UID)
	var err error
	if fsuid(-1) == o.UID && fsgid(-1) == o.GID {
		err = make()
	} else {
		err = fmt.Errorf("cannot make files as user %d: %w", o.UID, unix.EPERM)
	}
	fsuid(oldUID)
	fsgid(oldGID)
	if fsuid(-1) == oldUID && fsgid(-1) == oldGID {
		// otherwise the thread stays locked and ends with its goroutine
		runtime.UnlockOSThread()
	}
	return err
}

// fsuid sets the thread's file system user id and returns the one before; -1
// sets nothing.
func fsuid(id int) int {
	r, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(id), 0, 0)
	return int(r)
}

func fsgid(id int) int {
	r, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(id), 0, 0)
	return int(r)
}
