//go:build linux

package denial

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readMemory copies an address out of the memory of a waiting thread. That
// takes the right to trace it, which the owner of its user namespace has.
func readMemory(tid int, pointer uint64, length int32) ([]byte, error) {
	if length < 0 || length > maxAddress || tid == 0 {
		return nil, fmt.Errorf("cannot read address of %d bytes of thread %d", length, tid)
	}
	if length == 0 {
		return nil, nil
	}
	buf := make([]byte, length)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(pointer), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(tid, local, remote, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read address of thread %d: %w", tid, err)
	}
	if n != len(buf) {
		return nil, fmt.Errorf("cannot read address of thread %d: it ends after %d of %d bytes", tid, n, length)
	}
	return buf, nil
}

// process is the process of a waiting thread, or the thread's own number when
// that cannot be told.
func process(tid int) int {
	f, err := os.Open("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return tid
	}
	defer f.Close()
	var buf [512]byte // Tgid is the fourth line; the name in the first is escaped
	n, _ := f.Read(buf[:])
	_, rest, _ := bytes.Cut(buf[:n], []byte("\nTgid:\t"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	if err != nil {
		return tid
	}
	return pid
}

// executable is the base name of the program a waiting thread runs, in
// printable ASCII; empty when it cannot be told.
func executable(tid int) string {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink("/proc/"+strconv.Itoa(tid)+"/exe", buf[:])
	if err != nil {
		return ""
	}
	path := buf[:n]
	return printable(path[bytes.LastIndexByte(path, '/')+1:])
}
