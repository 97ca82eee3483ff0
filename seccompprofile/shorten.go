//go:build linux

package seccompprofile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// libseccomp's binary tree has a comparison for every number it has a rule for.
// The kernel converts, compiles and keeps the program anew for every sandbox, at
// a cost that goes with its length; so it is written again with a comparison for
// every range of numbers that are treated alike.

// shorten returns a shorter program that gives every call the same answer.
//
// That it does is proven, not believed: the new program is read as the old one
// was, and has to be the same decision for every value of every field. That
// both were read correctly is tried with the interpreter, at both ends of every
// span on every way to an answer.
func shorten(bpf []byte) ([]byte, error) {
	old, err := decode(bpf)
	if err != nil {
		return nil, err
	}
	g := newGraph()
	root, err := g.read(old)
	if err != nil {
		return nil, fmt.Errorf("cannot read the filter of libseccomp: %w", err)
	}
	short, err := written(root)
	if err != nil {
		return nil, err
	}
	again, err := g.read(short)
	if err != nil {
		return nil, fmt.Errorf("cannot read the shorter filter: %w", err)
	}
	if again != root {
		return nil, errors.New("cannot use the shorter filter: it has another meaning")
	}
	tries := 0
	err = root.each(call{}, func(c *call) error {
		if tries++; tries > maxWays {
			return errTooManyWays
		}
		return sameAnswer(old, short, c)
	})
	if err != nil {
		return nil, err
	}
	return encode(short), nil
}

// sameAnswer runs both programs.
func sameAnswer(old, short []instruction, c *call) error {
	want, err := run(old, c)
	if err != nil {
		return fmt.Errorf("cannot interpret the filter of libseccomp: %w", err)
	}
	got, err := run(short, c)
	if err != nil {
		return fmt.Errorf("cannot interpret the shorter filter: %w", err)
	}
	if got != want {
		return fmt.Errorf("cannot use the shorter filter: it gives %#x for %+v, that of libseccomp %#x", got, *c, want)
	}
	return nil
}

// each calls try with calls that take every way through the decision: with the
// first value of each span, 0 where the mask has no bits, and with the last one,
// 1 there.
func (d *decision) each(c call, try func(*call) error) error {
	if d.spans == nil {
		return try(&c)
	}
	var first uint32
	for _, s := range d.spans {
		for _, word := range []uint32{first, s.last | ^d.by.mask} {
			c.set(d.by.offset, word)
			if err := s.then.each(c, try); err != nil {
				return err
			}
		}
		first = d.by.next(s.last)
	}
	return nil
}

// set changes what word returns.
func (c *call) set(offset, word uint32) {
	switch {
	case offset == 0:
		c.nr = word
	case offset == 4:
		c.arch = word
	case offset%8 == 0:
		arg := &c.args[(offset-16)/8]
		*arg = *arg&^low32 | uint64(word)
	default:
		arg := &c.args[(offset-16)/8]
		*arg = *arg&low32 | uint64(word)<<32
	}
}

func encode(prog []instruction) []byte {
	bpf := make([]byte, 0, len(prog)*instructionSize)
	for _, in := range prog {
		bpf = binary.NativeEndian.AppendUint16(bpf, in.code)
		bpf = append(bpf, in.jt, in.jf)
		bpf = binary.NativeEndian.AppendUint32(bpf, in.k)
	}
	return bpf
}

// writer writes a program from its end to its start, because jumps only go
// forward.
type writer struct {
	code []instruction // the last one first
	at   map[*decision]int
}

// target is where a jump goes to: a decision, or a place in writer.code.
type target struct {
	decision *decision
	place    int
}

// written is a program for a decision.
func written(root *decision) ([]instruction, error) {
	w := writer{at: make(map[*decision]int)}
	w.place(root)
	n := len(w.code)
	if n > maxInstructions {
		return nil, fmt.Errorf("cannot write a filter of %d instructions: the kernel takes %d", n, maxInstructions)
	}
	prog := make([]instruction, n)
	for i, in := range w.code {
		prog[n-1-i] = in
	}
	return prog, nil
}

func (w *writer) put(in instruction) { w.code = append(w.code, in) }

// place writes a decision, unless it has been.
func (w *writer) place(d *decision) {
	if _, ok := w.at[d]; ok {
		return
	}
	for _, s := range d.spans {
		w.place(s.then)
	}
	switch {
	case d.spans == nil:
		w.put(instruction{code: unix.BPF_RET | unix.BPF_K, k: d.answer})
	case len(d.spans) == 2 && d.spans[0].last == 0 && d.by.mask != low32:
		w.compare(unix.BPF_JSET, d.by.mask, target{decision: d.spans[1].then}, target{decision: d.spans[0].then})
		w.load(d.by.offset)
	default:
		w.search(rows(d.by, d.spans))
		if d.by.mask != low32 {
			w.put(instruction{code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, k: d.by.mask})
		}
		w.load(d.by.offset)
	}
	w.at[d] = len(w.code) - 1
}

func (w *writer) load(offset uint32) {
	w.put(instruction{code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, k: offset})
}

// compare writes a jump.
func (w *writer) compare(op uint16, k uint32, yes, no target) target {
	// Either can need an instruction more, which moves this one.
	yesAt := w.near(yes, 1)
	noAt := w.near(no, 0)
	here := len(w.code)
	w.put(instruction{
		code: unix.BPF_JMP | op | unix.BPF_K,
		jt:   uint8(here - 1 - yesAt),
		jf:   uint8(here - 1 - noAt),
		k:    k,
	})
	return target{place: here}
}

// near is where a target is, or a way to it, if it is too far for a jump on a
// condition. Answers are written once more.
func (w *writer) near(t target, spare int) int {
	place := t.place
	if t.decision != nil {
		place = w.at[t.decision]
	}
	here := len(w.code)
	if here-1-place+spare <= 255 {
		return place
	}
	if t.decision != nil {
		w.at[t.decision] = here
	}
	if in := w.code[place]; in.code == unix.BPF_RET|unix.BPF_K {
		w.put(in)
	} else {
		w.put(instruction{code: unix.BPF_JMP | unix.BPF_JA, k: uint32(here - 1 - place)})
	}
	return here
}

// longestRow is how many single values are tried one after the other: more save
// instructions, and take longer.
const longestRow = 4

// row is neighbouring spans that lead to the same but for single values.
type row struct {
	last    uint32
	base    *decision
	singles []span
}

// rows puts spans in rows, each as long as it can be.
func rows(by field, spans []span) []row {
	var all []row
	for first := uint32(0); len(spans) > 0; {
		r, n := rowOf(by, first, spans, spans[0].then)
		if len(spans) > 1 {
			if other, m := rowOf(by, first, spans, spans[1].then); m > n {
				r, n = other, m
			}
		}
		all = append(all, r)
		first = by.next(r.last)
		spans = spans[n:]
	}
	return all
}

// rowOf is the longest row with that base, and how many spans it takes.
func rowOf(by field, first uint32, spans []span, base *decision) (row, int) {
	r := row{base: base}
	for i, s := range spans {
		if s.then != base {
			if s.last != first || len(r.singles) == longestRow {
				return r, i
			}
			r.singles = append(r.singles, s)
		}
		r.last = s.last
		first = by.next(s.last)
	}
	return r, len(spans)
}

// search writes the search of a row: a balanced tree.
func (w *writer) search(rows []row) target {
	if len(rows) > 1 {
		half := len(rows) / 2
		above := w.search(rows[half:])
		return w.compare(unix.BPF_JGT, rows[half-1].last, above, w.search(rows[:half]))
	}
	rest := target{decision: rows[0].base}
	for _, s := range slices.Backward(rows[0].singles) {
		rest = w.compare(unix.BPF_JEQ, s.last, target{decision: s.then}, rest)
	}
	return rest
}
