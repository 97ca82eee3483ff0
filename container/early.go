package container

/*
#include "early.h"
*/
import "C"

import (
	"bytes"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program that is going to need one cell, as a command, can begin with it
// before its Go run time: early.c forks the process, which makes the cell's
// namespaces while the run time starts and the program reads its arguments.
// Those depend on nothing but the caller's ids. What was begun is taken if it
// was told just what would be said now; else it is ended, as it is when the
// program ends without having taken it. No program of a sandbox exists before
// the keeper is in place of the process, as with any other.

// earlyWords are early.c's words for nsexec for a caller with these ids.
func earlyWords(euid, egid int) []byte {
	var e C.struct_early
	C.early_words(&e, C.uint(euid), C.uint(egid))
	return told(&e)
}

func told(e *C.struct_early) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&e.told)), e.size))
}

// takeEarly takes over the process that was begun, or ends it if it is not
// wanted; nil if there is none.
func takeEarly(wanted bool) *Waiting {
	e := C.early_take()
	if e.pid <= 0 {
		return nil
	}
	n := &newcomer{first: int(e.pid), alone: make(chan struct{})}
	wanted = prepareSock(int(e.control)) == nil && unix.SetNonblock(int(e.words), true) == nil && wanted
	w := &Waiting{control: newSock(int(e.control)), proc: n, done: make(chan struct{})}
	n.call, n.words = os.NewFile(uintptr(e.call), "call"), os.NewFile(uintptr(e.words), "words")
	close(w.done)
	wanted = wanted && bytes.Equal(told(&e), bootstrap(cellConfig("/", os.Geteuid(), os.Getegid())))
	if wanted && boundAnswers(int(e.call)) == nil {
		n.image, _ = keeperFile() // or Spawn says what is wrong
	}
	if n.image == nil {
		w.Close()
		return nil
	}
	return w
}

// beginEarly is for tests, which come after the Go run time.
func beginEarly() { C.isolate_early_begin() }
