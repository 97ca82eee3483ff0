package netd

// nativeArch is AUDIT_ARCH_AARCH64.
const nativeArch = 0xc00000b7

var moreCalls []uint32
