//go:build linux && cgo && seccomp

package seccompprofile

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// Instructions by their short names.
func ret(k uint32) instruction { return instruction{code: unix.BPF_RET | unix.BPF_K, k: k} }
func ld(k uint32) instruction {
	return instruction{code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, k: k}
}
func and(k uint32) instruction {
	return instruction{code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, k: k}
}
func ja(k uint32) instruction { return instruction{code: unix.BPF_JMP | unix.BPF_JA, k: k} }
func jump(op uint16, k uint32, jt, jf uint8) instruction {
	return instruction{code: unix.BPF_JMP | op | unix.BPF_K, k: k, jt: jt, jf: jf}
}
func jeq(k uint32, jt, jf uint8) instruction  { return jump(unix.BPF_JEQ, k, jt, jf) }
func jgt(k uint32, jt, jf uint8) instruction  { return jump(unix.BPF_JGT, k, jt, jf) }
func jge(k uint32, jt, jf uint8) instruction  { return jump(unix.BPF_JGE, k, jt, jf) }
func jset(k uint32, jt, jf uint8) instruction { return jump(unix.BPF_JSET, k, jt, jf) }

func TestShorten(t *testing.T) {
	for name, c := range map[string]struct {
		prog, want []instruction
		err        string
	}{
		"an answer": {prog: []instruction{ret(1)}, want: []instruction{ret(1)}},
		"a field that nothing depends on": {
			prog: []instruction{ld(0), jeq(1, 0, 1), ret(1), ld(16), jgt(5, 0, 1), ret(1), ret(1)},
			want: []instruction{ret(1)}},
		"neighbours": {
			prog: []instruction{ld(0), jeq(1, 3, 0), jeq(2, 2, 0), jeq(3, 1, 0), ret(1), ret(2)},
			want: []instruction{ld(0), jgt(3, 2, 0), jeq(0, 1, 0), ret(2), ret(1)}},
		"nothing is above the greatest": {
			prog: []instruction{ld(0), jgt(low32, 0, 1), ret(1), jge(0, 0, 1), ret(2), ret(3)},
			want: []instruction{ret(2)}},
		"compared with nothing": {
			prog: []instruction{ld(20), and(0), jeq(0, 0, 3), ld(16), jset(0, 1, 0), ret(1), ret(2)},
			want: []instruction{ret(1)}},
		"the accumulator begins as 0": {
			prog: []instruction{jeq(0, 0, 1), ret(1), ret(2)},
			want: []instruction{ret(1)}},
		"what a mask does not let through": {
			prog: []instruction{ld(16), and(0xf0), jeq(0x0f, 0, 1), ret(1), jgt(0x1f, 1, 0), ret(2), ret(3)},
			want: []instruction{ld(16), and(0xf0), jgt(0x10, 0, 1), ret(3), ret(2)}},
		"a bit": {
			prog: []instruction{ld(16), and(4), jeq(4, 0, 1), ret(1), ret(2)},
			want: []instruction{ld(16), jset(4, 0, 1), ret(1), ret(2)}},
		"a word by itself and under a mask": {
			prog: []instruction{ld(16), jset(4, 0, 3), ld(16), jeq(4, 0, 1), ret(1), ret(2)},
			want: []instruction{ld(16), jset(4, 0, 3), ld(16), jeq(4, 0, 1), ret(1), ret(2)}},
		"jumps over instructions": {
			prog: []instruction{ja(1), ret(1), ld(4), jge(9, 0, 1), ja(1), ret(2), ret(3)},
			want: []instruction{ld(4), jgt(8, 0, 1), ret(3), ret(2)}},
		"no end":                  {prog: []instruction{ld(0), jeq(1, 1, 0), ret(1)}, err: errRanOff.Error()},
		"a far jump":              {prog: []instruction{ja(low32), ret(1)}, err: errRanOff.Error()},
		"the instruction pointer": {prog: []instruction{ld(8), ret(1)}, err: "load of offset 8"},
		"between two words":       {prog: []instruction{ld(18), ret(1)}, err: "load of offset 18"},
		"past the arguments":      {prog: []instruction{ld(64), ret(1)}, err: "load of offset 64"},
		"an unknown instruction":  {prog: []instruction{{code: unix.BPF_RET | unix.BPF_A}}, err: "instruction 0x16"},
		"an unknown jump":         {prog: []instruction{{code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X}, ret(1)}, err: "instruction 0x1d"},
	} {
		t.Run(name, func(t *testing.T) {
			bpf, err := shorten(encode(c.prog))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := decode(bpf)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %s\nwant %s", texts(got), texts(c.want))
			}
		})
	}
	if _, err := shorten(nil); err == nil {
		t.Error("there is no program to shorten")
	}
}

func texts(prog []instruction) string {
	var lines []string
	for pc, in := range prog {
		lines = append(lines, in.text(pc))
	}
	return "\n" + strings.Join(lines, "\n")
}

// TestFarJumps has more answers than a jump on a condition can pass over.
func TestFarJumps(t *testing.T) {
	g := newGraph()
	var spans []span
	for i := range uint32(900) {
		then := g.answers(i % 7)
		if i%100 == 50 {
			then = g.choose(field{16 + 8*(i/200), low32}, []span{{i, g.answers(8)}, {low32, g.answers(i)}})
		}
		spans = append(spans, span{10 * i, then})
	}
	root := g.choose(field{0, low32}, spans)
	prog, err := written(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(prog, func(in instruction) bool { return in.code == unix.BPF_JMP|unix.BPF_JA }) {
		t.Error("no jump is too far")
	}
	if again, err := g.read(prog); err != nil || again != root {
		t.Errorf("the program has another meaning; error %v", err)
	}
	for i := range uint32(9000) {
		got, err := run(prog, &call{nr: i, args: [6]uint64{5000, 5000, 5000, 5000, 5000}})
		want := (i + 9) / 10
		if want%100 != 50 {
			want %= 7
		}
		if err != nil || got != want && i <= 8990 {
			t.Fatalf("%d gives %d, want %d; error %v", i, got, want, err)
		}
	}
}

// TestTooLong has a decision that no program of the kernel's can be.
func TestTooLong(t *testing.T) {
	g := newGraph()
	var spans []span
	for i := range uint32(maxInstructions) {
		spans = append(spans, span{10 * i, g.answers(i % 3)})
	}
	if _, err := written(g.choose(field{0, low32}, spans)); err == nil || !strings.Contains(err.Error(), "instructions") {
		t.Errorf("error %v, want one about the length", err)
	}
}

// TestTooManyWays: comparisons of 40 fields, one after the other, are refused
// instead of followed.
func TestTooManyWays(t *testing.T) {
	var prog []instruction
	for bit := range 20 {
		prog = append(prog, ld(16), jset(1<<bit, 0, 2), ld(24), jset(1<<bit, 1, 0), ja(0))
	}
	prog = append(prog, ret(1))
	if _, err := shorten(encode(prog)); !errors.Is(err, errTooManyWays) {
		t.Errorf("error %v, want %v", err, errTooManyWays)
	}
}

// TestShorterIsTheSame compares what libseccomp makes of each table with what is
// made of that: for every number that is in use, and for values around all that
// either compares with.
func TestShorterIsTheSame(t *testing.T) {
	arches := []uint32{auditArch[runtime.GOARCH], unix.AUDIT_ARCH_I386, auditArch[runtime.GOARCH] + 1, 0, low32}
	for _, p := range profiles {
		for _, table := range []table{tableOf(p, runtime.GOARCH), tableOf(p, runtime.GOARCH).silenced()} {
			long, short := both(t, table)
			if 2*len(short) > len(long) {
				t.Errorf("%v: %d instructions became %d", p, len(long), len(short))
			}
			values := compared(long, short)
			rng := rand.New(rand.NewPCG(1, 2))
			try := func(nr, arch uint32, n int) {
				c := call{nr: nr, arch: arch}
				for range n {
					if err := sameAnswer(long, short, &c); err != nil {
						t.Fatal(err)
					}
					for i := range c.args {
						c.args[i] = uint64(values[rng.IntN(len(values))])
						if rng.IntN(4) == 0 {
							c.args[i] |= uint64(values[rng.IntN(len(values))]) << 32
						}
					}
				}
			}
			for _, arch := range arches {
				for nr := range uint32(2 * highestCall) {
					try(nr, arch, 50)
					try(nr|x32, arch, 2)
				}
				for _, nr := range values {
					try(nr, arch, 2)
				}
			}
			for _, s := range table.specials {
				for _, name := range strings.Fields(s.calls) {
					for _, args := range s.witnesses() {
						c := call{nr: number(t, name), arch: arches[0], args: args}
						if err := sameAnswer(long, short, &c); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
	}
}

// both are the program of libseccomp for a table, and the shorter one.
func both(t testing.TB, table table) (long, short []instruction) {
	t.Helper()
	calls, err := resolve(table)
	if err != nil {
		t.Fatal(err)
	}
	bpf, err := assemble(table, calls)
	if err != nil {
		t.Fatal(err)
	}
	if long, err = decode(bpf); err != nil {
		t.Fatal(err)
	}
	if bpf, err = shorten(bpf); err != nil {
		t.Fatal(err)
	}
	if short, err = decode(bpf); err != nil {
		t.Fatal(err)
	}
	return long, short
}

// compared are the constants of programs and their neighbours.
func compared(progs ...[]instruction) []uint32 {
	values := []uint32{0, low32}
	for _, in := range slices.Concat(progs...) {
		values = append(values, in.k-1, in.k, in.k+1)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// FuzzShorten shortens any program, those of libseccomp and what becomes of them,
// and makes calls of which the words are those given or what the program compares
// with. Nothing may differ, and no proof may fail.
func FuzzShorten(f *testing.F) {
	for _, p := range profiles {
		long, short := both(f, tableOf(p, runtime.GOARCH))
		f.Add(encode(long), []byte{1})
		f.Add(encode(short), []byte{9, 8, 7, 6, 5, 4, 3, 2, 1})
	}
	f.Add(encode([]instruction{ld(16), jset(6, 0, 3), ld(16), and(3), jeq(2, 0, 1), ret(1), ret(2)}), []byte("words"))
	f.Fuzz(func(t *testing.T, bpf, words []byte) {
		long, err := decode(bpf)
		if err != nil {
			return
		}
		g := newGraph()
		root, err := g.read(long)
		if err != nil {
			return
		}
		if _, err := written(root); err != nil {
			return
		}
		short, ok := shortened(t, bpf)
		if !ok {
			return
		}
		seed := binary.LittleEndian.Uint64(append(slices.Clone(words), make([]byte, 8)...))
		rng := rand.New(rand.NewPCG(seed, 0))
		values := compared(long, short)
		for len(words) >= 4 {
			values = append(values, binary.LittleEndian.Uint32(words))
			words = words[4:]
		}
		for range 200 {
			var c call
			for _, offset := range []uint32{0, 4, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60} {
				c.set(offset, values[rng.IntN(len(values))])
			}
			if err := sameAnswer(long, short, &c); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// shortened is what shorten makes of a program; false where there are too many
// ways through it.
func shortened(t *testing.T, bpf []byte) ([]instruction, bool) {
	t.Helper()
	out, err := shorten(bpf)
	if errors.Is(err, errTooManyWays) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	short, err := decode(out)
	if err != nil {
		t.Fatal(err)
	}
	return short, true
}

// FuzzTable has libseccomp compile rules for two calls that nobody wrote, and
// what comes out shortened.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte("\x13\x02\x41\x00\x13\x03\x42\x00\x93\x05\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		table := tableOf(policy.ProfileStrict, runtime.GOARCH)
		table.specials = []special{specialOf(b, "ioctl"), specialOf(b[len(b)/2:], "mmap")}
		if table.check() != nil {
			return
		}
		calls, err := resolve(table)
		if err != nil {
			t.Fatal(err)
		}
		bpf, err := assemble(table, calls)
		if err != nil {
			return // two rules with the same conditions
		}
		long, err := decode(bpf)
		if err != nil {
			t.Fatal(err)
		}
		short, ok := shortened(t, bpf)
		if !ok {
			return
		}
		for _, s := range table.specials {
			for _, args := range s.witnesses() {
				c := call{nr: number(t, s.calls), arch: auditArch[runtime.GOARCH], args: args}
				if err := sameAnswer(long, short, &c); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// specialOf makes a rule of every four bytes: which arguments, their masks and
// values, and the answer.
func specialOf(b []byte, name string) special {
	answers := []action{pass, ask, errno(unix.EPERM), errno(unix.EINVAL)}
	masks := []uint64{low32, ^uint64(0), 0xff, 0xf0f0}
	s := special{calls: name, why: "fuzzed", otherwise: errno(unix.EACCES)}
	for ; len(b) >= 4 && len(s.rules) < 8; b = b[4:] {
		mask := masks[b[0]>>4&3]
		r := rule{do: answers[b[0]>>6]}
		r.when = append(r.when, bits(uint(b[1]%3), mask, uint64(b[2])*0x1001&mask))
		if b[3] != 0 {
			r.when = append(r.when, bits(uint(b[1]%3)+1, low32, uint64(b[3])))
		}
		s.rules = append(s.rules, r)
	}
	return s
}
