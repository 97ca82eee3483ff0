package keeper

/*
#include "keeper.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Reg names a register of the far side: a descriptor that came with the
// message (the first ones, in order) or a kept result.
type Reg uint8

// Arg is one argument of an operation. Use Int, FD, Builder.Str, Builder.Bytes.
type Arg struct {
	value uint64
	reg   regUse
	data  []byte // non-nil: a pointer to these bytes in the data part
	ptrs  []Arg  // non-nil: a pointer to an array of pointers, NULL at the end
	fprog []byte // non-nil: a pointer to a struct sock_fprog over these bytes
}

type regUse uint8

const (
	plain regUse = iota
	register
)

// Int is a number.
func Int(v int) Arg { return Arg{value: uint64(v)} }

// Word is a number given unsigned.
func Word(v uint64) Arg { return Arg{value: v} }

// R is the value of a register.
func R(r Reg) Arg { return Arg{value: uint64(r), reg: register} }

// Str is a pointer to a NUL-terminated string. A NUL inside is the caller's
// bug: policy and plan refuse such strings.
func Str(s string) Arg { return Arg{data: append([]byte(s), 0)} }

// Data is a pointer to bytes; the far side may write into them. Used twice, an
// Arg is the same pointer twice.
func Data(b []byte) Arg { return Arg{data: append(make([]byte, 0, len(b)+1), b...)} }

// Strings is a pointer to a NULL-terminated array of strings.
func Strings(s []string) Arg {
	a := Arg{ptrs: make([]Arg, 0, len(s)+1)}
	for _, v := range s {
		a.ptrs = append(a.ptrs, Str(v))
	}
	return a
}

// Filter is a pointer to a struct sock_fprog over compiled BPF, 8 bytes an
// instruction.
func Filter(bpf []byte) Arg { return Arg{fprog: bpf} }

// Builder writes a tape. The zero value is ready.
type Builder struct {
	ops     []opcode
	regs    Reg
	Problem error // the first operation that could not be written; Encode returns it
}

type opcode struct {
	nr     uint32
	flags  uint8
	store  uint8
	expect int64
	args   []Arg
	step   string
}

// NewBuilder begins a tape for a message that carries fds descriptors: they
// are registers 0 to fds-1.
func NewBuilder(fds int) *Builder { return &Builder{regs: Reg(fds)} }

// Call adds a system call that must succeed. step says what it is for, in the
// words of an error: "mount proc on /proc".
func (b *Builder) Call(step string, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), args: args, step: step})
}

// CallReg is Call with the result kept in a new register.
func (b *Builder) CallReg(step string, nr int, args ...Arg) Reg {
	if b.regs >= C.MAX_REGS {
		b.fail(fmt.Errorf("cannot write tape: more than %d registers", C.MAX_REGS))
		return 0
	}
	r := b.regs
	b.regs++
	b.add(opcode{nr: uint32(nr), store: uint8(r) + 1, args: args, step: step})
	return r
}

// Try adds a system call whose errors do not matter.
func (b *Builder) Try(step string, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_IGNORE, args: args, step: step})
}

// CallUnless adds a system call for which errno is as good as success.
func (b *Builder) CallUnless(step string, errno unix.Errno, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_ERRNO, expect: int64(errno), args: args, step: step})
}

// Expect adds a system call whose result must be want.
func (b *Builder) Expect(step string, want int64, nr int, args ...Arg) *Builder {
	return b.add(opcode{nr: uint32(nr), flags: C.OPF_EXPECT, expect: want, args: args, step: step})
}

// Equal fails unless n bytes at p and q are equal.
func (b *Builder) Equal(step string, p, q Arg, n int) *Builder {
	return b.add(opcode{nr: C.OP_MEMEQ, args: []Arg{p, q, Int(n)}, step: step})
}

// Exec adds execve of one candidate path. Errors let the tape go on to the
// next; NotFound ends the list.
func (b *Builder) Exec(path string, argv, env Arg) *Builder {
	return b.add(opcode{nr: unix.SYS_EXECVE, flags: C.OPF_EXEC, args: []Arg{Str(path), argv, env}, step: "execute " + strconv.Quote(path)})
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
	return b.add(opcode{nr: C.OP_SEND, args: []Arg{sock, Int(C.REP_READY), fd}, step: step})
}

// Wait blocks until the supervisor has sent a message over the socket.
func (b *Builder) Wait(sock Arg) *Builder {
	return b.add(opcode{nr: C.OP_WAIT, args: []Arg{sock}, step: "wait for the supervisor"})
}

// Become is the last operation of a program that is not to be executed because
// it is a fork of a template: the code of keeper.c returns to the interpreter
// that called it, with this text.
func (b *Builder) Become(text []byte) *Builder {
	return b.add(opcode{nr: C.OP_BECOME, args: []Arg{Data(text), Int(len(text))}, step: "become the program"})
}

// ReportTo says where later failures are reported.
func (b *Builder) ReportTo(sock Arg) *Builder {
	return b.add(opcode{nr: C.OP_REPORT, args: []Arg{sock}, step: "move report socket"})
}

// WriteFile opens an existing file, writes text in one write and closes it.
func (b *Builder) WriteFile(path, text string) *Builder {
	r := b.CallReg("open "+path, unix.SYS_OPENAT, Int(unix.AT_FDCWD), Str(path), Int(unix.O_WRONLY|unix.O_CLOEXEC), Int(0))
	b.Expect("write "+path, int64(len(text)), unix.SYS_WRITE, R(r), Data([]byte(text)), Int(len(text)))
	b.Call("close "+path, unix.SYS_CLOSE, R(r))
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

func (b *Builder) add(o opcode) *Builder {
	if len(o.args) > 6 {
		b.fail(fmt.Errorf("cannot write tape: %s has %d arguments", o.step, len(o.args)))
		o.args = o.args[:6]
	}
	b.ops = append(b.ops, o)
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
	e := encoder{base: headerSize + opSize*len(b.ops)}
	ops := make([]byte, opSize*len(b.ops))
	steps := make([]string, len(b.ops))
	le := binary.LittleEndian
	for i, o := range b.ops {
		p := ops[i*opSize:]
		le.PutUint32(p, o.nr)
		p[5], p[6] = o.flags, o.store
		le.PutUint64(p[8:], uint64(o.expect))
		for j, a := range o.args {
			if a.reg == register {
				p[4] |= 1 << j
			}
			at := headerSize + i*opSize + 16 + 8*j
			le.PutUint64(p[16+8*j:], e.place(a, at))
		}
		steps[i] = o.step
	}
	// Relocations stand between operations and data, so data offsets move by
	// their size; it is known only now.
	shift := uint64(4 * len(e.reloc))
	if shift%8 != 0 {
		shift += 4 // data stays aligned
	}
	out := make([]byte, headerSize, headerSize+len(ops)+int(shift)+len(e.data))
	out = append(out, ops...)
	for _, r := range e.reloc {
		if int(r) >= e.base {
			r += uint32(shift)
		}
		out = le.AppendUint32(out, r)
	}
	for len(out) < headerSize+len(ops)+int(shift) {
		out = append(out, 0)
	}
	out = append(out, e.data...)
	for _, r := range e.reloc {
		at := int(r)
		if at >= e.base {
			at += int(shift)
		}
		le.PutUint64(out[at:], le.Uint64(out[at:])+shift)
	}
	putHeader(out, kind, flags, len(b.ops), len(e.reloc), arg)
	return Tape{Message: out, Steps: steps}, b.Problem
}

// encoder collects the data part and the places of pointers into it.
type encoder struct {
	base  int // offset of the data part if there were no relocations
	data  []byte
	reloc []uint32
	put   map[*byte]int // where the bytes of an Arg stand already
	lists map[*Arg]int  // where an array of pointers stands already
}

// place returns the word for an argument that stands at offset at.
func (e *encoder) place(a Arg, at int) uint64 {
	var off int
	switch {
	case len(a.data) > 0:
		at, ok := e.put[&a.data[0]]
		if !ok {
			at = e.bytes(a.data)
			if e.put == nil {
				e.put = map[*byte]int{}
			}
			e.put[&a.data[0]] = at
		}
		off = at
	case a.data != nil:
		off = e.bytes(a.data)
	case len(a.ptrs) > 0:
		at, ok := e.lists[&a.ptrs[0]]
		if !ok {
			at = e.pointers(a.ptrs)
			if e.lists == nil {
				e.lists = map[*Arg]int{}
			}
			e.lists[&a.ptrs[0]] = at
		}
		off = at
	case a.ptrs != nil:
		off = e.pointers(a.ptrs)
	case a.fprog != nil:
		off = e.program(a.fprog)
	default:
		return a.value
	}
	e.reloc = append(e.reloc, uint32(at))
	return uint64(off)
}

func (e *encoder) align() {
	for len(e.data)%8 != 0 {
		e.data = append(e.data, 0)
	}
}

func (e *encoder) bytes(b []byte) int {
	e.align()
	off := e.base + len(e.data)
	e.data = append(e.data, b...)
	return off
}

func (e *encoder) pointers(args []Arg) int {
	e.align()
	off := e.base + len(e.data)
	at := len(e.data)
	e.data = append(e.data, make([]byte, 8*(len(args)+1))...)
	for i, a := range args {
		word := e.place(a, e.base+at+8*i)
		binary.LittleEndian.PutUint64(e.data[at+8*i:], word)
	}
	return off
}

func (e *encoder) program(bpf []byte) int {
	code := e.bytes(bpf)
	e.align()
	off := e.base + len(e.data)
	head := make([]byte, 16)
	binary.LittleEndian.PutUint16(head, uint16(len(bpf)/8))
	binary.LittleEndian.PutUint64(head[8:], uint64(code))
	e.data = append(e.data, head...)
	e.reloc = append(e.reloc, uint32(off+8))
	return off
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
