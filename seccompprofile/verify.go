//go:build linux

package seccompprofile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The program is checked against the table after every compilation, because the
// library that compiles it is the one of the user's machine and not the one the
// golden test has seen, and because its documented way with rules is to leave
// out or reorder what it does not need. What is checked is what will be loaded.

const (
	instructionSize = 8    // struct sock_filter
	maxInstructions = 4096 // BPF_MAXINSNS
)

// instruction is struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

func decode(bpf []byte) ([]instruction, error) {
	n := len(bpf) / instructionSize
	if n == 0 || n > maxInstructions || len(bpf)%instructionSize != 0 {
		return nil, fmt.Errorf("cannot use a filter of %d bytes: the kernel takes 1 to %d instructions of %d bytes",
			len(bpf), maxInstructions, instructionSize)
	}
	prog := make([]instruction, n)
	for i := range prog {
		b := bpf[i*instructionSize:]
		prog[i] = instruction{
			code: binary.NativeEndian.Uint16(b),
			jt:   b[2],
			jf:   b[3],
			k:    binary.NativeEndian.Uint32(b[4:]),
		}
	}
	return prog, nil
}

// call is what the kernel shows a filter: struct seccomp_data.
type call struct {
	nr   uint32
	arch uint32
	args [6]uint64

	looked bool // at an argument
}

// word is the 32-bit load at an offset of struct seccomp_data.
func (c *call) word(offset uint32) (uint32, bool) {
	switch {
	case offset == 0:
		return c.nr, true
	case offset == 4:
		return c.arch, true
	case offset >= 16 && offset < 64 && offset%8 == 0:
		c.looked = true
		return uint32(c.args[(offset-16)/8]), true
	case offset >= 16 && offset < 64 && offset%8 == 4:
		c.looked = true
		return uint32(c.args[(offset-16)/8] >> 32), true
	}
	return 0, false
}

var errRanOff = errors.New("the program does not end")

// run interprets the part of classic BPF that libseccomp emits.
func run(prog []instruction, c *call) (uint32, error) {
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		var taken bool
		switch in.code {
		case unix.BPF_RET | unix.BPF_K:
			return in.k, nil
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			var ok bool
			if a, ok = c.word(in.k); !ok {
				return 0, fmt.Errorf("load of offset %d", in.k)
			}
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.k
			continue
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.k)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			taken = a == in.k
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			taken = a > in.k
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			taken = a >= in.k
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			taken = a&in.k != 0
		default:
			return 0, fmt.Errorf("instruction %#x", in.code)
		}
		if taken {
			pc += int(in.jt)
		} else {
			pc += int(in.jf)
		}
	}
	return 0, errRanOff
}

// returned is the value a filter returns for an action.
func (a action) returned() uint32 {
	switch a.verb {
	case allow:
		return unix.SECCOMP_RET_ALLOW
	case refuse:
		return unix.SECCOMP_RET_ERRNO | uint32(a.errno)
	case notify:
		return unix.SECCOMP_RET_USER_NOTIF
	case byDefault:
		return defaultAction.returned()
	}
	return unix.SECCOMP_RET_KILL_PROCESS
}

// auditArch is AUDIT_ARCH_* of a GOARCH; others are not supported.
var auditArch = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64,
	"arm64": unix.AUDIT_ARCH_AARCH64,
}

// highestCall is past the last number any table or kernel has.
const highestCall = 512

// x32 is the bit in a call's number that makes it an x32 call on amd64.
const x32 = 0x4000_0000

// verify runs the program for every call number, and for every call with rules
// over arguments that meet and just miss each condition. For the other calls it
// makes sure that the program does not look at an argument: so one run of each is
// enough, and the kernel can know the answer when it loads the program.
func verify(bpf []byte, t table, calls map[string]int) error {
	arch, ok := auditArch[t.arch]
	if !ok {
		return fmt.Errorf("cannot check a filter for architecture %q: it is not supported", t.arch)
	}
	prog, err := decode(bpf)
	if err != nil {
		return err
	}
	expect := func(c *call, want action, what string) error {
		switch got, err := run(prog, c); {
		case err != nil:
			return fmt.Errorf("cannot interpret the filter for %s: %w", what, err)
		case got != want.returned():
			return fmt.Errorf("libseccomp compiled something else than the table: %s(%#x) gives %#x, want %v",
				what, c.args, got, want)
		}
		return nil
	}
	always := func(nr, arch uint32, want action) error {
		c := call{nr: nr, arch: arch}
		what := fmt.Sprintf("call %d of architecture %#x", nr, arch)
		if err := expect(&c, want, what); err != nil {
			return err
		}
		if c.looked {
			return fmt.Errorf("libseccomp compiled something else than the table: the answer to %s depends on arguments", what)
		}
		return nil
	}

	want := make(map[int]action, len(calls))
	ruled := make(map[int]bool)
	for _, name := range t.plain {
		want[calls[name]] = pass
	}
	for _, s := range t.specials {
		for _, name := range strings.Fields(s.calls) {
			nr := calls[name]
			want[nr], ruled[nr] = s.otherwise, len(s.distinct()) > 0
			for _, args := range s.witnesses() {
				if err := expect(&call{nr: uint32(nr), arch: arch, args: args}, s.answer(args), name); err != nil {
					return err
				}
			}
		}
	}
	for nr := range highestCall {
		if !ruled[nr] {
			if err := always(uint32(nr), arch, want[nr]); err != nil {
				return err
			}
		}
		if err := always(uint32(nr), arch^1, deadEnd); err != nil {
			return err
		}
	}
	return verifyBeyond(t.arch, func(nr uint32, want action) error { return always(nr, arch, want) })
}

// verifyBeyond looks at the numbers past the last call. -1 is not one of x32 but
// what a tracer leaves when it takes a call away.
func verifyBeyond(arch string, always func(nr uint32, want action) error) error {
	var unknown action
	foreign := unknown
	if arch == "amd64" {
		foreign = deadEnd
	}
	for nr := range uint32(highestCall) {
		if err := always(nr|x32, foreign); err != nil {
			return err
		}
	}
	return errors.Join(
		always(highestCall, unknown), always(x32-1, unknown), always(^uint32(1), foreign), always(^uint32(0), unknown))
}

// witnesses are argument vectors around the conditions of a special.
func (s special) witnesses() [][6]uint64 { return append(s.combinations(), s.flips()...) }

// flips are, for every rule, arguments that meet it, and these with each single
// bit changed.
func (s special) flips() [][6]uint64 {
	var vectors [][6]uint64
	for _, r := range s.rules {
		var met [6]uint64
		for _, c := range r.when {
			if met[c.arg] = c.value; c.not {
				met[c.arg] = ^c.value
			}
		}
		vectors = append(vectors, met)
		for arg := range met {
			if len(s.around(uint(arg))) == 0 {
				continue
			}
			for bit := range 64 {
				v := met
				v[arg] ^= 1 << bit
				vectors = append(vectors, v)
			}
		}
	}
	return vectors
}

// combinations has, for every argument with conditions, the values compared
// with, their neighbours, both with garbage in the upper half, and the extremes.
func (s special) combinations() [][6]uint64 {
	vectors := [][6]uint64{{}}
	for arg := range uint(6) {
		values := s.around(arg)
		if len(values) == 0 {
			continue
		}
		next := make([][6]uint64, 0, len(vectors)*len(values))
		for _, v := range vectors {
			for _, value := range values {
				v[arg] = value
				next = append(next, v)
			}
		}
		vectors = next
	}
	return vectors
}

func (s special) around(arg uint) []uint64 {
	var values []uint64
	for _, r := range s.rules {
		for _, c := range r.when {
			if c.arg != arg {
				continue
			}
			values = append(values, c.value, c.value|1<<32, c.value-1, c.value+1)
			if c.mask != ^uint64(0) {
				values = append(values, c.value|^c.mask, ^c.mask)
			}
		}
	}
	// assemble compares argument 0 for every "otherwise".
	if len(values) == 0 && arg != 0 {
		return nil
	}
	values = append(values, 0, low32, 1<<32, ^uint64(0))
	slices.Sort(values)
	return slices.Compact(values)
}
