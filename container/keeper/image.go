package keeper

/*
#include "keeper.h"
const u8 *isolate_keeper_begin(void);
const u8 *isolate_keeper_end(void);
*/
import "C"

import (
	"encoding/binary"
	"runtime"
	"unsafe"
)

// elfHeader is the size of the ELF header and the one program header before
// the code.
const elfHeader = 64 + 56

// loadAddress is where the far side is mapped. The code is position
// independent; any address a program may have will do.
const loadAddress = 0x10000

// WarmEntry is where in Image the function begins that an interpreter calls
// which has mapped the image, and from which it returns in its forks.
func WarmEntry() int {
	begin := uintptr(unsafe.Pointer(C.isolate_keeper_begin()))
	return elfHeader + int(uintptr(unsafe.Pointer(C.isolate_keeper_warm))-begin)
}

// Image returns the far side as an ELF executable of a few KiB: one read-only
// executable segment, no interpreter, no writable data.
func Image() []byte {
	begin := unsafe.Pointer(C.isolate_keeper_begin())
	size := uintptr(unsafe.Pointer(C.isolate_keeper_end())) - uintptr(begin)
	entry := uintptr(unsafe.Pointer(&C.isolate_keeper_entry)) - uintptr(begin)
	code := unsafe.Slice((*byte)(begin), size)

	machine := uint16(62) // EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = 183 // EM_AARCH64
	}
	out := make([]byte, elfHeader, elfHeader+len(code))
	le := binary.LittleEndian
	copy(out, "\x7fELF\x02\x01\x01") // 64 bit, little endian, version 1
	le.PutUint16(out[16:], 2)        // ET_EXEC
	le.PutUint16(out[18:], machine)
	le.PutUint32(out[20:], 1)
	le.PutUint64(out[24:], loadAddress+elfHeader+uint64(entry))
	le.PutUint64(out[32:], 64) // program headers
	le.PutUint16(out[52:], 64)
	le.PutUint16(out[54:], 56)
	le.PutUint16(out[56:], 1)
	ph := out[64:]
	le.PutUint32(ph[0:], 1) // PT_LOAD
	le.PutUint32(ph[4:], 5) // readable, executable
	le.PutUint64(ph[16:], loadAddress)
	le.PutUint64(ph[24:], loadAddress)
	le.PutUint64(ph[32:], uint64(elfHeader+len(code)))
	le.PutUint64(ph[40:], uint64(elfHeader+len(code)))
	le.PutUint64(ph[48:], 4096)
	return append(out, code...)
}
