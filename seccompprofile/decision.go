//go:build linux

package seccompprofile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// field is what a program compares: a word of struct seccomp_data under a mask.
// A mask of 0 makes it the constant 0.
type field struct{ offset, mask uint32 }

// floor is the greatest value the field can have that is not above v.
func (f field) floor(v uint32) uint32 {
	out := v &^ f.mask
	if out == 0 {
		return v
	}
	var bit uint32 = 1 << 31
	for bit&out == 0 {
		bit >>= 1
	}
	// The highest bit that the field lacks becomes 0, so what is below it can
	// be as great as may be.
	return v&^(bit|(bit-1)) | f.mask&(bit-1)
}

// next is the value of the field after v, which is one of its values; after the
// last one, 0.
func (f field) next(v uint32) uint32 { return ((v | ^f.mask) + 1) & f.mask }

// decision is what a program does with a call: it answers, or goes by the value
// of a field. Decisions of one graph that do the same are the same pointer.
type decision struct {
	id     uint32
	answer uint32
	by     field
	spans  []span // in ascending order, at least two; nil for an answer
}

// span is what follows for the values from the one after the span before it to
// its last one. The last values are ones that the field can have, the greatest
// one in the last span.
type span struct {
	last uint32
	then *decision
}

// graph has one decision of each kind.
type graph struct {
	kept map[string]*decision
	ways int // that read has followed
}

// maxWays bounds the time and memory for programs that nobody has in mind. The
// profiles have some 1,000.
const maxWays = 1 << 16

var errTooManyWays = errors.New("there are too many ways through the program")

func newGraph() *graph { return &graph{kept: make(map[string]*decision)} }

func (g *graph) keep(key []byte, d decision) *decision {
	if kept, ok := g.kept[string(key)]; ok {
		return kept
	}
	d.id = uint32(len(g.kept))
	g.kept[string(key)] = &d
	return &d
}

func (g *graph) answers(ret uint32) *decision {
	return g.keep(binary.NativeEndian.AppendUint32(nil, ret), decision{answer: ret})
}

// choose joins spans that end in the same, so that a field nothing depends on
// disappears.
func (g *graph) choose(by field, spans []span) *decision {
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && joined[n-1].then == s.then {
			joined[n-1].last = s.last
		} else {
			joined = append(joined, s)
		}
	}
	if len(joined) == 1 {
		return joined[0].then
	}
	joined[len(joined)-1].last = by.mask
	key := make([]byte, 0, 8+8*len(joined))
	for _, v := range []uint32{by.offset, by.mask} {
		key = binary.NativeEndian.AppendUint32(key, v)
	}
	for _, s := range joined {
		key = binary.NativeEndian.AppendUint32(key, s.last)
		key = binary.NativeEndian.AppendUint32(key, s.then.id)
	}
	return g.keep(key, decision{by: by, spans: joined})
}

// bounds are the values that a field can still have.
type bounds struct {
	of          field
	first, last uint32
}

// read tells what a program does with any call at all. It follows every way
// through it that a call can take, each comparison for the values for which it
// holds and for those for which it does not. Fields are asked for in the order in
// which the program comes to them. A program that does the same with the same
// order of fields is the same decision.
func (g *graph) read(prog []instruction) (*decision, error) {
	g.ways = 0
	return g.from(prog, 0, field{}, nil)
}

// from reads on at an instruction, with a field in the accumulator.
func (g *graph) from(prog []instruction, pc int, acc field, known []bounds) (*decision, error) {
	if g.ways++; g.ways > maxWays {
		return nil, errTooManyWays
	}
	for ; pc < len(prog); pc++ {
		in := prog[pc]
		switch in.code {
		case unix.BPF_RET | unix.BPF_K:
			return g.answers(in.k), nil
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if _, ok := new(call).word(in.k); !ok {
				return nil, fmt.Errorf("load of offset %d", in.k)
			}
			acc = field{in.k, low32}
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc.mask &= in.k
			continue
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.k)
			continue
		}
		f, parts, err := in.compares(acc)
		if err != nil {
			return nil, err
		}
		b := boundsOf(f, known)
		parts = b.cut(parts)
		if len(parts) > 1 {
			return g.branch(prog, pc, acc, b, parts, known)
		}
		pc += in.jump(parts[0].holds)
	}
	return nil, errRanOff
}

// branch reads on for each part of a comparison, and puts what follows in one row.
func (g *graph) branch(prog []instruction, pc int, acc field, b bounds, parts []part, known []bounds) (*decision, error) {
	var spans []span
	for _, p := range parts {
		b.last = p.last
		then, err := g.from(prog, pc+1+prog[pc].jump(p.holds), acc, with(known, b))
		if err != nil {
			return nil, err
		}
		spans = append(spans, then.within(b)...)
		b.first = b.of.next(b.last)
	}
	return g.choose(b.of, spans), nil
}

// within is what follows for the values within the bounds.
func (d *decision) within(b bounds) []span {
	if d.spans == nil || d.by != b.of {
		return []span{{b.last, d}}
	}
	var spans []span
	for _, s := range d.spans {
		if s.last >= b.first {
			spans = append(spans, span{min(s.last, b.last), s.then})
		}
		if s.last >= b.last {
			break
		}
	}
	return spans
}

func (in instruction) jump(taken bool) int {
	if taken {
		return int(in.jt)
	}
	return int(in.jf)
}

// part is values, to its last one, for which a comparison holds or does not.
type part struct {
	last  uint32
	holds bool
}

// compares is the field that a jump goes by, and all values of 32 bits in parts.
func (in instruction) compares(acc field) (field, []part, error) {
	const top = low32
	var parts []part
	below := func(k uint32, holds bool) {
		if k > 0 {
			parts = append(parts, part{k - 1, holds})
		}
	}
	switch in.code {
	case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
		below(in.k, false)
		parts = append(parts, part{in.k, true})
		if in.k != top {
			parts = append(parts, part{top, false})
		}
	case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
		parts = append(parts, part{in.k, false})
		if in.k != top {
			parts = append(parts, part{top, true})
		}
	case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
		below(in.k, false)
		parts = append(parts, part{top, true})
	case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
		acc.mask &= in.k
		parts = []part{{0, false}, {top, true}}
	default:
		return field{}, nil, fmt.Errorf("instruction %#x", in.code)
	}
	if acc.mask == 0 {
		acc.offset = 0
	}
	return acc, parts, nil
}

// cut leaves the parts with values that the field can have within the bounds,
// and lets each end with such a value. There is at least one.
func (b bounds) cut(parts []part) []part {
	var kept []part
	for _, p := range parts {
		p.last = b.of.floor(min(p.last, b.last))
		if p.last >= b.first && (len(kept) == 0 || p.last > kept[len(kept)-1].last) {
			kept = append(kept, p)
		}
	}
	return kept
}

func boundsOf(f field, known []bounds) bounds {
	for _, b := range known {
		if b.of == f {
			return b
		}
	}
	return bounds{f, 0, f.mask}
}

// with is the bounds known, with those of one field in place of what was known
// of it.
func with(known []bounds, b bounds) []bounds {
	all := []bounds{b}
	for _, k := range known {
		if k.of != b.of {
			all = append(all, k)
		}
	}
	return all
}
