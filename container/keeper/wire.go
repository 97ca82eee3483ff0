package keeper

/*
#include "keeper.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
)

// Kind is the kind of a message or report; the numbers stand in keeper.h.
type Kind uint32

// The kinds; doc.go shows who sends them to whom.
const (
	MsgTape    Kind = C.MSG_TAPE
	MsgSeat    Kind = C.MSG_SEAT
	MsgSandbox Kind = C.MSG_SANDBOX
	MsgSpawn   Kind = C.MSG_SPAWN
	MsgSignal  Kind = C.MSG_SIGNAL
	// MsgTemplate has the keeper start an interpreter; see WarmEntry.
	MsgTemplate Kind = C.MSG_TEMPLATE

	RepDone   Kind = C.REP_DONE
	RepFail   Kind = C.REP_FAIL
	RepCloned Kind = C.REP_CLONED
	RepReady  Kind = C.REP_READY
	RepExit   Kind = C.REP_EXIT
)

// Flags of a message.
const (
	FlagBig     = C.FLAG_BIG     // the message is in a memfd, the first descriptor
	FlagCgroup  = C.FLAG_CGROUP  // the last descriptor is the cgroup to be born into
	FlagOneShot = C.FLAG_ONESHOT // the init ends with its first program
	FlagAgain   = C.FLAG_AGAIN   // the rest is that of the last MsgSandbox without it
)

// MaxMessage is the longest message in bytes that goes through the socket
// itself; longer ones travel in a memfd.
const MaxMessage = C.MSG_CAP

// MaxRuns is how many programs one init runs at once.
const MaxRuns = C.MAX_RUNS

const (
	argsAt     = 32 // of arg in struct msg
	headerSize = C.sizeof_struct_msg
	opSize     = C.sizeof_struct_op
	reportSize = C.sizeof_struct_rep
)

// Report is an answer of the far side.
type Report struct {
	Kind Kind
	// A to D are what keeper.h says for the kind.
	A, B, C, D int64
}

// DecodeReport reads one report. The far side is our own code, but it shares a
// kernel with hostile programs, so lengths and kinds are checked all the same.
func DecodeReport(b []byte) (Report, error) {
	if len(b) != reportSize {
		return Report{}, fmt.Errorf("cannot decode report: %d bytes, want %d", len(b), reportSize)
	}
	le := binary.LittleEndian
	r := Report{
		Kind: Kind(le.Uint32(b)),
		A:    int64(le.Uint64(b[8:])),
		B:    int64(le.Uint64(b[16:])),
		C:    int64(le.Uint64(b[24:])),
		D:    int64(le.Uint64(b[32:])),
	}
	if r.Kind < RepDone || r.Kind > RepExit {
		return Report{}, fmt.Errorf("cannot decode report: unknown kind %d", r.Kind)
	}
	return r, nil
}

// Message encodes a message without a tape.
func Message(kind Kind, flags uint32, arg ...uint64) []byte {
	b := make([]byte, headerSize)
	putHeader(b, kind, flags, 0, 0, headerSize, arg)
	return b
}

func putHeader(b []byte, kind Kind, flags uint32, nops, nreloc, data int, arg []uint64) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(kind))
	le.PutUint32(b[4:], flags)
	le.PutUint32(b[8:], uint32(len(b)))
	le.PutUint32(b[12:], uint32(nops))
	le.PutUint32(b[16:], uint32(nreloc))
	le.PutUint32(b[20:], uint32(data))
	for i, a := range arg {
		le.PutUint64(b[argsAt+8*i:], a)
	}
}
