package netd

import "golang.org/x/sys/unix"

// nativeArch is AUDIT_ARCH_X86_64; moreCalls are what other architectures lack.
const nativeArch = 0xc000003e

var moreCalls = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_ARCH_PRCTL}
