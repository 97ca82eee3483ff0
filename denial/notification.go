//go:build linux

package denial

import (
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notification is struct seccomp_notif: a system call that waits for an answer.
// The kernel wrote it, but pid, number and arguments are of a hostile program.
type Notification struct {
	// ID names the call in the answer.
	ID uint64
	// TID is the calling thread as this process sees it; 0 when it is in a
	// PID namespace that this process does not see.
	TID int
	// Call, Arch and IP are the number, the AUDIT_ARCH_* value and the
	// instruction pointer.
	Call int
	Arch uint32
	IP   uint64
	// Args are the registers, unchanged: the upper half of an int is garbage.
	Args [6]uint64
}

// The layout of linux/seccomp.h as of 5.0. Later kernels only append.
const (
	notificationSize = 80
	responseSize     = 24
	// maxNotification bounds what a kernel may have appended.
	maxNotification = 4096
)

// Decode reads a struct seccomp_notif as SECCOMP_IOCTL_NOTIF_RECV left it in
// buf. What a newer kernel appended is ignored; flags, of which none is defined,
// are an error.
func Decode(buf []byte) (Notification, error) {
	if len(buf) < notificationSize || len(buf) > maxNotification {
		return Notification{}, fmt.Errorf("cannot decode notification: it has %d bytes, want %d to %d",
			len(buf), notificationSize, maxNotification)
	}
	if flags := binary.NativeEndian.Uint32(buf[12:]); flags != 0 {
		return Notification{}, fmt.Errorf("cannot decode notification: unknown flags %#x", flags)
	}
	n := Notification{
		ID:   binary.NativeEndian.Uint64(buf),
		TID:  int(int32(binary.NativeEndian.Uint32(buf[8:]))),
		Call: int(int32(binary.NativeEndian.Uint32(buf[16:]))),
		Arch: binary.NativeEndian.Uint32(buf[20:]),
		IP:   binary.NativeEndian.Uint64(buf[24:]),
	}
	if n.TID < 0 {
		return Notification{}, fmt.Errorf("cannot decode notification: thread %d", n.TID)
	}
	for i := range n.Args {
		n.Args[i] = binary.NativeEndian.Uint64(buf[32+8*i:])
	}
	return n, nil
}

// passOn, in place of an error, lets the kernel go on with the call.
const passOn unix.Errno = 0

// response is struct seccomp_notif_resp.
func response(id uint64, e unix.Errno) [responseSize]byte {
	var b [responseSize]byte
	binary.NativeEndian.PutUint64(b[0:], id)
	if e == passOn {
		binary.NativeEndian.PutUint32(b[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
	} else {
		binary.NativeEndian.PutUint32(b[16:], uint32(-int32(e)))
	}
	return b
}

// received is how many bytes this kernel writes per notification.
var received = sync.OnceValues(func() (int, error) {
	var sizes struct{ notif, resp, data uint16 }
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if errno != 0 {
		return 0, fmt.Errorf("cannot ask for the size of seccomp notifications: %w", errno)
	}
	if sizes.notif < notificationSize || sizes.notif > maxNotification || sizes.resp < responseSize || sizes.resp > maxNotification {
		return 0, fmt.Errorf("cannot use seccomp notifications of %d and answers of %d bytes", sizes.notif, sizes.resp)
	}
	// A kernel with a longer answer is content with ours in a longer buffer.
	return int(max(sizes.notif, sizes.resp)), nil
})

// The three requests of a listener. None of them blocks: receive is only called
// when poll says that a notification waits, and there is one receiver.

func receive(fd int, buf []byte) error {
	clear(buf) // the kernel refuses a buffer with anything in it
	return control(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&buf[0]))
}

func respond(fd int, buf []byte, id uint64, e unix.Errno) error {
	clear(buf)
	r := response(id, e)
	copy(buf, r[:])
	return control(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&buf[0]))
}

// stillWaits tells whether the call is still waiting, so that what was read
// from /proc and memory in the meantime was that of the caller and not of a
// process that got its number since.
func stillWaits(fd int, id uint64) bool {
	return control(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
