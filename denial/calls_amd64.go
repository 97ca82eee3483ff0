//go:build linux

package denial

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// archCalls are the calls of that kind only this architecture has.
var archCalls = map[int]string{
	unix.SYS_IOPL:   "iopl",
	unix.SYS_IOPERM: "ioperm",
}
