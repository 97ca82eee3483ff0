//go:build linux

package denial

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// archCalls are the calls of that kind only this architecture has.
var archCalls map[int]string
