//go:build linux && cgo && seccomp

package seccompprofile

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

var update = flag.Bool("update", false, "write the compiled programs and their readable form anew")

// goldenLibrary is the libseccomp the compiled programs were made with. Another
// one may order a program differently; it must still mean the same, which
// TestMeaning looks at with any of them.
const goldenLibrary = "2.5.4"

// TestGolden compiles every profile and compares it with the program that is
// part of the package and with its readable form.
func TestGolden(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the goldens are for that architecture")
	}
	if v := libraryVersion(); v != goldenLibrary {
		t.Skipf("needs libseccomp %s, which the goldens were made with; this is %s", goldenLibrary, v)
	}
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			table := tableOf(p, "amd64")
			bpf, err := table.compile()
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join("compiled", p.String()+".amd64.hex")
			text := filepath.Join("testdata", p.String()+".amd64.golden")
			readable := disassemble(t, bpf, table)
			if *update {
				write(t, program, inHex(bpf))
				write(t, text, readable)
				return
			}
			if !bytes.Equal(bpf, ready(p)) {
				t.Errorf("%s is not what compile makes of the table; review and run with -update", program)
			}
			want, err := os.ReadFile(text)
			if err != nil {
				t.Fatal(err)
			}
			if line, ok := firstDifference(readable, want); !ok {
				t.Errorf("%s differs in line %d; review and run with -update", text, line)
			}
		})
	}
}

// inHex writes one instruction a line.
func inHex(bpf []byte) []byte {
	var out []byte
	for i := 0; i+8 <= len(bpf); i += 8 {
		out = fmt.Appendf(out, "%x\n", bpf[i:i+8])
	}
	return out
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func firstDifference(a, b []byte) (line int, same bool) {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1, false
		}
	}
	return min(len(x), len(y)) + 1, len(x) == len(y)
}

// TestMeaning checks the program that will be loaded against the table, with
// whatever libseccomp is installed, and that compiling with it gives a program
// of the same meaning.
func TestMeaning(t *testing.T) {
	for _, p := range profiles {
		for m, compile := range map[mode]func(policy.Profile) (*Filter, error){notifying: Compile, silent: CompileSilent} {
			f, err := compile(p)
			if err != nil {
				t.Fatal(err)
			}
			table := tableOf(p, runtime.GOARCH)
			if m == silent {
				table = table.silenced()
			}
			calls, err := resolve(table)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(f.BPF, table, calls); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			if _, err := table.compile(); err != nil {
				t.Errorf("%v: %v", p, err)
			}
		}
	}
}

// tell writes what a program decides, a line for each span of values, with the
// calls that have a rule.
func (d *decision) tell(out *bytes.Buffer, indent string, names map[uint32]string) {
	if d.spans == nil {
		fmt.Fprintf(out, " %s\n", meaning(d.answer))
		return
	}
	what := wordName(d.by.offset)
	if d.by.mask != low32 {
		what += fmt.Sprintf(" & %#x", d.by.mask)
	}
	fmt.Fprintf(out, " by %s\n", what)
	var first uint32
	for _, s := range d.spans {
		values := fmt.Sprintf("%#x", s.last)
		if first != s.last {
			values = fmt.Sprintf("%#x to %#x", first, s.last)
		}
		fmt.Fprintf(out, "%s  %s:", indent, values)
		if d.by.offset == 0 {
			for nr := first; nr <= min(s.last, highestCall); nr++ {
				if name, ok := names[nr]; ok {
					fmt.Fprintf(out, " %s", name)
				}
			}
		}
		s.then.tell(out, indent+"  ", names)
		first = d.by.next(s.last)
	}
}

// disassemble writes a program as text: what it decides; then the address, the
// instruction, its target addresses, and what the numbers stand for.
func disassemble(t *testing.T, bpf []byte, table table) []byte {
	t.Helper()
	prog, err := decode(bpf)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := resolve(table)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[uint32]string, len(calls))
	for name, nr := range calls {
		names[uint32(nr)] = name
	}
	root, err := newGraph().read(prog)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprint(&out, "decides")
	root.tell(&out, "", names)
	fmt.Fprintln(&out)
	loaded := make([]string, len(prog)+256) // what the accumulator holds at an address
	for pc, in := range prog {
		text := in.text(pc)
		var note string
		switch {
		case in.code == unix.BPF_LD|unix.BPF_W|unix.BPF_ABS:
			note = wordName(in.k)
			loaded[pc+1] = note
		case in.code == unix.BPF_ALU|unix.BPF_AND|unix.BPF_K:
			loaded[pc+1] = "masked " + loaded[pc]
		case in.code == unix.BPF_JMP|unix.BPF_JA:
			loaded[pc+1+int(in.k)] = loaded[pc]
		case in.code&7 == unix.BPF_JMP:
			loaded[pc+1+int(in.jt)], loaded[pc+1+int(in.jf)] = loaded[pc], loaded[pc]
			if note = loaded[pc]; note == "nr" {
				note = names[in.k]
			}
		case in.code&7 == unix.BPF_RET:
			note = meaning(in.k)
		}
		if note != "" {
			text = fmt.Sprintf("%-40s ; %s", text, note)
		}
		fmt.Fprintln(&out, text)
	}
	return out.Bytes()
}

func (in instruction) text(pc int) string {
	jump := func(op string) string {
		return fmt.Sprintf("%4d: %-4s %#x ? %d : %d", pc, op, in.k, pc+1+int(in.jt), pc+1+int(in.jf))
	}
	switch in.code {
	case unix.BPF_RET | unix.BPF_K:
		return fmt.Sprintf("%4d: ret  %#x", pc, in.k)
	case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
		return fmt.Sprintf("%4d: ld   [%d]", pc, in.k)
	case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
		return fmt.Sprintf("%4d: and  %#x", pc, in.k)
	case unix.BPF_JMP | unix.BPF_JA:
		return fmt.Sprintf("%4d: ja   %d", pc, pc+1+int(in.k))
	case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
		return jump("jeq")
	case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
		return jump("jgt")
	case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
		return jump("jge")
	case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
		return jump("jset")
	}
	return fmt.Sprintf("%4d: %#x %d %d %#x", pc, in.code, in.jt, in.jf, in.k)
}

// wordName names a 32-bit word of struct seccomp_data.
func wordName(offset uint32) string {
	switch {
	case offset == 0:
		return "nr"
	case offset == 4:
		return "arch"
	case offset >= 16 && offset%8 == 0:
		return fmt.Sprintf("arg%d low", (offset-16)/8)
	case offset >= 16:
		return fmt.Sprintf("arg%d high", (offset-16)/8)
	}
	return "?"
}

func meaning(ret uint32) string {
	switch ret & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return errnoName(unix.Errno(ret & unix.SECCOMP_RET_DATA))
	case unix.SECCOMP_RET_USER_NOTIF:
		return "notify"
	case unix.SECCOMP_RET_KILL_PROCESS:
		return "kill the process"
	}
	return "?"
}
