package keeper

/*
#include "keeper.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Reg names a register of the far side: a descriptor that came with the
// message (the first ones, in order) or a kept result.
type Reg uint8

// Arg is one argument of an operation. Use Int, Word, R, Str, Data, Strings or
// Filter.
type Arg struct {
	kind  argKind
	value uint64 // a number, or a register
	text  string
	bytes []byte
	list  []string
	// self is the same in all copies of one Arg: used twice, it is the same
	// pointer twice.
	self *byte
}

type argKind uint8

const (
	number argKind = iota
	register
	text    // a pointer to text and a NUL
	data    // a pointer to bytes
	strs    // a pointer to an array of pointers to list, NULL at the end
	program // a pointer to a struct sock_fprog over bytes
)

// Int is a number.
func Int(v int) Arg { return Arg{value: uint64(v)} }

// Word is a number given unsigned.
func Word(v uint64) Arg { return Arg{value: v} }

// R is the value of a register.
func R(r Reg) Arg { return Arg{kind: register, value: uint64(r)} }

// Str is a pointer to a NUL-terminated string. A NUL inside is the caller's
// bug: policy and plan refuse such strings.
func Str(s string) Arg { return Arg{kind: text, text: s} }

// Data is a pointer to a copy of bytes, made when the operation is added; the
// far side may write into it.
func Data(b []byte) Arg { return Arg{kind: data, bytes: b, self: new(byte)} }

// Strings is a pointer to a NULL-terminated array of strings.
func Strings(s []string) Arg { return Arg{kind: strs, list: s, self: new(byte)} }

// Filter is a pointer to a struct sock_fprog over compiled BPF, 8 bytes an
// instruction.
func Filter(bpf []byte) Arg { return Arg{kind: program, bytes: bpf} }

// Builder writes a tape. The zero value is ready.
//
// Operations and what they point to are written at once, each to its part of
// the message: a command waits for some hundred of them before its cell is
// there, and every page that they need costs it a page fault.
type Builder struct {
	ops, data []byte
	// places are where pointers stand in data.
	places  []uint32
	known   map[*byte]uint64 // where what an Arg points to stands, by Arg.self
	steps   []string
	regs    Reg
	Problem error // the first operation that could not be written; Encode returns it
}

type opcode struct {
	nr     uint32
	flags  uint8
	store  uint8
	expect int64
	step   string
}

// NewBuilder begins a tape for a message that carries fds descriptors: they
// are registers 0 to fds-1.
func NewBuilder(fds int) *Builder { return &Builder{regs: Reg(fds)} }

// Grow makes room for that many further operations with that many bytes of data.
func (b *Builder) Grow(ops, bytes int) {
	b.ops = slices.Grow(b.ops, ops*opSize)
	b.steps = slices.Grow(b.steps, ops)
	b.data = slices.Grow(b.data, bytes)
}

// Call adds a system call that must succeed. step says what it is for, in the
// words of an error: "mount proc on /proc".
func (b *Builder) Call(step string, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), step: step}, args...)
}

// CallReg is Call with the result kept in a new register.
func (b *Builder) CallReg(step string, nr int, args ...Arg) Reg {
	if b.regs >= C.MAX_REGS {
		b.fail(fmt.Errorf("cannot write tape: more than %d registers", C.MAX_REGS))
		return 0
	}
	r := b.regs
	b.regs++
	b.add(opcode{nr: uint32(nr), store: uint8(r) + 1, step: step}, args...)
	return r
}

// Try adds a system call whose errors do not matter.
func (b *Builder) Try(step string, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_IGNORE, step: step}, args...)
}

// CallUnless adds a system call for which errno is as good as success.
func (b *Builder) CallUnless(step string, errno unix.Errno, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_ERRNO, expect: int64(errno), step: step}, args...)
}

// Expect adds a system call whose result must be want.
func (b *Builder) Expect(step string, want int64, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_EXPECT, expect: want, step: step}, args...)
}

// Equal fails unless n bytes at p and q are equal.
func (b *Builder) Equal(step string, p, q Arg, n int) *Builder {
	return b.add(opcode{nr: C.OP_MEMEQ, step: step}, p, q, Int(n))
}

// Exec adds execve of one candidate path. Errors let the tape go on to the
// next; NotFound ends the list.
func (b *Builder) Exec(path string, argv, env Arg) *Builder {
	return b.add(opcode{nr: unix.SYS_EXECVE, flags: C.OPF_EXEC, step: "execute " + strconv.Quote(path)}, Str(path), argv, env)
}

// NotFound fails with the most telling errno of the Exec operations before.
func (b *Builder) NotFound() *Builder {
	return b.add(opcode{nr: C.OP_NOTFOUND, step: StepExec})
}

// StepExec is the step of the failure of all Exec candidates.
const StepExec = "execute program"

// Send sends REP_READY over a socket, with the descriptor fd, or none if it is
// Int(-1).
func (b *Builder) Send(step string, sock, fd Arg) *Builder {
	return b.add(opcode{nr: C.OP_SEND, step: step}, sock, Int(C.REP_READY), fd)
}

// Wait blocks until the supervisor has sent a message over the socket.
func (b *Builder) Wait(sock Arg) *Builder {
	return b.add(opcode{nr: C.OP_WAIT, step: "wait for the supervisor"}, sock)
}

// Next is the last operation of a tape that goes on with that of the next
// message over the socket, whose descriptors are then the first registers.
func (b *Builder) Next(sock Arg) *Builder {
	return b.add(opcode{nr: C.OP_NEXT, step: "wait for the next tape"}, sock)
}

// Become is the last operation of a program that is not to be executed because
// it is a fork of a template: the code of keeper.c returns to the interpreter
// that called it, with this text.
func (b *Builder) Become(text []byte) *Builder {
	return b.add(opcode{nr: C.OP_BECOME, step: "become the program"}, Data(text), Int(len(text)))
}

// ReportTo says where later failures are reported.
func (b *Builder) ReportTo(sock Arg) *Builder {
	return b.add(opcode{nr: C.OP_REPORT, step: "move report socket"}, sock)
}

// WriteFile opens an existing file, writes text in one write and closes it.
func (b *Builder) WriteFile(path, text string) *Builder {
	return b.writeFile(path, Int(unix.AT_FDCWD), path, text)
}

// FileText is a file's name and what is written to it.
type FileText struct{ Name, Text string }

// WriteFiles is WriteFile for several files of one directory, to which it walks
// once.
func (b *Builder) WriteFiles(dir string, files ...FileText) *Builder {
	r := b.CallReg("open "+dir, unix.SYS_OPENAT, Int(unix.AT_FDCWD), Str(dir), Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), Int(0))
	for _, f := range files {
		b.writeFile(dir+"/"+f.Name, R(r), f.Name, f.Text)
	}
	b.Call("close "+dir, unix.SYS_CLOSE, R(r))
	b.regs--
	return b
}

// writeFile writes to what is at path as seen from dir.
func (b *Builder) writeFile(name string, dir Arg, path, text string) *Builder {
	r := b.CallReg("open "+name, unix.SYS_OPENAT, dir, Str(path), Int(unix.O_WRONLY|unix.O_CLOEXEC), Int(0))
	b.Expect("write "+name, int64(len(text)), unix.SYS_WRITE, R(r), Data([]byte(text)), Int(len(text)))
	b.Call("close "+name, unix.SYS_CLOSE, R(r))
	b.regs-- // the register is free again
	return b
}

// MakeFile creates a file with the given content and permission bits.
func (b *Builder) MakeFile(path string, content []byte, mode uint32) *Builder {
	r := b.CallReg("create "+path, unix.SYS_OPENAT, Int(unix.AT_FDCWD), Str(path), Int(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC), Int(int(mode)))
	if len(content) > 0 {
		b.Expect("write "+path, int64(len(content)), unix.SYS_WRITE, R(r), Data(content), Int(len(content)))
	}
	b.Call("close "+path, unix.SYS_CLOSE, R(r))
	b.regs--
	return b
}

func (b *Builder) add(o opcode, args ...Arg) *Builder {
	if len(args) > 6 {
		b.fail(fmt.Errorf("cannot write tape: %s has %d arguments", o.step, len(args)))
		args = args[:6]
	}
	var op [opSize]byte
	le := binary.LittleEndian
	le.PutUint32(op[:], o.nr)
	op[5], op[6] = o.flags, o.store
	le.PutUint64(op[8:], uint64(o.expect))
	for i, a := range args {
		at := 16 + 8*i
		switch a.kind {
		case number:
			le.PutUint64(op[at:], a.value)
		case register:
			op[4] |= 1 << i
			le.PutUint64(op[at:], a.value)
		default:
			op[7] |= 1 << i
			le.PutUint64(op[at:], b.put(a))
		}
	}
	b.ops = append(b.ops, op[:]...)
	b.steps = append(b.steps, o.step)
	return b
}

func (b *Builder) fail(err error) {
	if b.Problem == nil {
		b.Problem = err
	}
}

// Tape is an encoded message with the names of its steps.
type Tape struct {
	Message []byte
	Steps   []string
}

// With is the tape's message with another first argument.
func (t Tape) With(arg uint64) []byte {
	msg := slices.Clone(t.Message)
	binary.LittleEndian.PutUint64(msg[argsAt:], arg)
	return msg
}

// Is tells whether the two are one tape: what Encode made at one time.
func (t Tape) Is(other Tape) bool {
	return len(t.Message) > 0 && len(other.Message) > 0 && &t.Message[0] == &other.Message[0]
}

// Step names operation i.
func (t Tape) Step(i int64) string {
	if i < 0 || i >= int64(len(t.Steps)) {
		return "start"
	}
	return t.Steps[i]
}

// String lists the steps, one a line.
func (t Tape) String() string { return strings.Join(t.Steps, "\n") }

// Encode makes the message that carries the tape.
func (b *Builder) Encode(kind Kind, flags uint32, arg ...uint64) (Tape, error) {
	dataAt := headerSize + len(b.ops) + 4*len(b.places)
	dataAt = (dataAt + 7) &^ 7 // data stays aligned
	out := make([]byte, headerSize, dataAt+len(b.data))
	out = append(out, b.ops...)
	for _, at := range b.places {
		out = binary.LittleEndian.AppendUint32(out, at)
	}
	out = append(out[:dataAt], b.data...)
	putHeader(out, kind, flags, len(b.steps), len(b.places), dataAt, arg)
	return Tape{Message: out, Steps: b.steps}, b.Problem
}

// put writes what an argument points to and returns where it stands.
func (b *Builder) put(a Arg) (at uint64) {
	if at, ok := b.known[a.self]; ok {
		return at
	}
	switch a.kind {
	case text:
		return b.putText(a.text)
	case data:
		at = b.putBytes(a.bytes)
	case strs:
		at = b.putPointers(a.list)
	case program:
		return b.putProgram(a.bytes)
	}
	if b.known == nil {
		b.known = map[*byte]uint64{}
	}
	b.known[a.self] = at
	return at
}

// align begins a new piece of data.
func (b *Builder) align() uint64 {
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
	return uint64(len(b.data))
}

func (b *Builder) putText(s string) uint64 {
	at := b.align()
	b.data = append(append(b.data, s...), 0)
	return at
}

func (b *Builder) putBytes(p []byte) uint64 {
	at := b.align()
	b.data = append(b.data, p...)
	return at
}

func (b *Builder) putPointers(list []string) uint64 {
	at := b.align()
	b.data = append(b.data, make([]byte, 8*(len(list)+1))...)
	for i, s := range list {
		b.point(at+uint64(8*i), b.putText(s))
	}
	return at
}

func (b *Builder) putProgram(bpf []byte) uint64 {
	code := b.putBytes(bpf)
	at := b.align()
	b.data = append(b.data, make([]byte, 16)...)
	binary.LittleEndian.PutUint16(b.data[at:], uint16(len(bpf)/8))
	b.point(at+8, code)
	return at
}

// point writes a pointer into the data part.
func (b *Builder) point(at, to uint64) {
	b.places = append(b.places, uint32(at))
	binary.LittleEndian.PutUint64(b.data[at:], to)
}

// StageError is a failure on the far side: which stage, which operation of its
// tape, which errno.
type StageError struct {
	Stage string // "cell", "sandbox" or "program"
	Step  string
	Errno unix.Errno
}

func (e *StageError) Error() string {
	return fmt.Sprintf("cannot set up %s: %s: %v", e.Stage, e.Step, e.Errno)
}

// Unwrap gives the errno to errors.Is.
func (e *StageError) Unwrap() error { return e.Errno }
