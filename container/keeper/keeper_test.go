package keeper

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// The image is a program without interpreter, dynamic section or writable
// segment: it can start in any root file system and nothing in it can change.
func TestImageIsSelfContained(t *testing.T) {
	image := Image()
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Progs) != 1 {
		t.Fatalf("%d program headers, want 1", len(f.Progs))
	}
	p := f.Progs[0]
	if p.Type != elf.PT_LOAD || p.Flags != elf.PF_R|elf.PF_X {
		t.Errorf("segment is %v %v, want a readable, executable one", p.Type, p.Flags)
	}
	if f.Entry < p.Vaddr || f.Entry >= p.Vaddr+p.Filesz {
		t.Errorf("entry %#x is outside of the segment", f.Entry)
	}
	if len(image) > 16<<10 {
		t.Errorf("image has %d bytes: what made it grow?", len(image))
	}
}

// far is a keeper that runs as an ordinary child, without namespaces: the
// protocol can be tested without any privilege.
type far struct {
	fd  int
	cmd *exec.Cmd
}

func startFar(t *testing.T) *far {
	t.Helper()
	mem, err := unix.MemfdCreate("keeper", 0)
	if err != nil {
		t.Fatal(err)
	}
	image := os.NewFile(uintptr(mem), "keeper")
	defer image.Close()
	if _, err := image.Write(Image()); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "far")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/fd/4")
	cmd.ExtraFiles = []*os.File{theirs, image}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(pair[0]) // its end is the keeper's end
		if err := cmd.Wait(); err != nil {
			t.Errorf("the keeper ended with %v", err)
		}
	})
	return &far{pair[0], cmd}
}

func (f *far) send(t *testing.T, msg []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(f.fd, msg, oob, nil, 0); err != nil {
		t.Fatal(err)
	}
}

func (f *far) recv(t *testing.T) Report {
	t.Helper()
	buf := make([]byte, 256)
	n, err := unix.Read(f.fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	r, err := DecodeReport(buf[:n])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *far) run(t *testing.T, b *Builder, fds ...int) (Tape, Report) {
	t.Helper()
	tape, err := b.Encode(MsgTape, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.send(t, tape.Message, fds...)
	return tape, f.recv(t)
}

func TestTapeRuns(t *testing.T) {
	f := startFar(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := NewBuilder(1)
	text := []byte("from the far side")
	b.Expect("write", int64(len(text)), unix.SYS_WRITE, R(0), Data(text), Int(len(text)))
	name := make([]byte, 65*6)
	b.Call("uname", unix.SYS_UNAME, Data(name))
	if _, rep := f.run(t, b, int(w.Fd())); rep.Kind != RepDone {
		t.Fatalf("answer %+v, want done", rep)
	}
	w.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("read %q, %v; want %q", got, err, text)
	}
}

// A tape goes on with the next message's: results that were kept stay, the
// descriptors are new, and a failure has the number that it has there.
func TestTapeGoesOn(t *testing.T) {
	f := startFar(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	const control = 3 // as keeper.c has it
	first := NewBuilder(0)
	first.CallReg("overwritten", unix.SYS_GETPID)
	pid := first.CallReg("kept", unix.SYS_GETPID)
	first.Send("report", Int(control), Int(-1)).Next(Int(control))
	first.Call("never", -1)
	if _, rep := f.run(t, first); rep.Kind != RepReady {
		t.Fatalf("answer %+v, want ready", rep)
	}
	second := NewBuilder(1)
	text := []byte("from the next tape")
	second.Expect("write", int64(len(text)), unix.SYS_WRITE, R(0), Data(text), Int(len(text)))
	second.Expect("signal nobody, itself", 0, unix.SYS_KILL, R(pid), Int(0))
	second.Call("fail", unix.SYS_CLOSE, Int(-1))
	tape, rep := f.run(t, second, int(w.Fd()))
	if rep.Kind != RepFail || tape.Step(rep.A) != "fail" || unix.Errno(rep.B) != unix.EBADF {
		t.Fatalf("answer %+v, want the failure of the third operation", rep)
	}
	w.Close()
	if got, err := io.ReadAll(io.LimitReader(r, int64(len(text)))); err != nil || !bytes.Equal(got, text) {
		t.Errorf("read %q, %v; want %q", got, err, text)
	}
}

// A seat orders its last sandbox again without the tape, as often as it is told,
// and also after one whose tape was too long to be kept.
func TestSandboxAgain(t *testing.T) {
	f := startFar(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	seat := &far{fd: pair[0]}
	t.Cleanup(func() { unix.Close(pair[0]) })
	entry, err := NewBuilder(1).Encode(MsgSeat, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.send(t, entry.Message, pair[1])
	unix.Close(pair[1])
	if rep := f.recv(t); rep.Kind != RepDone {
		t.Fatalf("answer %+v, want done", rep)
	}
	if rep := seat.recv(t); rep.Kind != RepDone {
		t.Fatalf("answer %+v, want done", rep)
	}

	again := Message(MsgSandbox, FlagAgain)
	told := func(text string, padding int) []byte {
		b := NewBuilder(2)
		b.Equal("what it was given", Data([]byte(text)), Data([]byte(text)), len(text))
		// a pointer within the data, too, which is made in place
		b.Exec("/nonexistent", Strings([]string{text}), Strings(nil))
		b.Expect("write", int64(len(text)), unix.SYS_WRITE, R(1), Data([]byte(text)), Int(len(text)))
		b.Call("carry", unix.SYS_GETPID, Data(make([]byte, padding)))
		tape, err := b.Encode(MsgSandbox, FlagOneShot)
		if err != nil {
			t.Fatal(err)
		}
		return tape.Message
	}
	for _, o := range []struct {
		msg  []byte
		want string
	}{
		{told("one", 0), "one"}, {again, "one"}, {again, "one"},
		{told("two", 100<<10), "two"}, {again, "two"},
		{told("three", 10), "three"}, {again, "three"},
		{told("long", MaxMessage), "long"},
		{told("four", 0), "four"}, {again, "four"},
	} {
		init, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fds := []int{init[1], int(w.Fd())}
		if len(o.msg) > MaxMessage {
			mem, err := unix.MemfdCreate("big", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(mem, o.msg); err != nil {
				t.Fatal(err)
			}
			seat.send(t, Message(MsgTape, FlagBig, 0, 0, 0, uint64(len(o.msg))), append([]int{mem}, fds...)...)
			unix.Close(mem)
		} else {
			seat.send(t, o.msg, fds...)
		}
		unix.Close(init[1])
		w.Close()
		if rep := seat.recv(t); rep.Kind != RepCloned {
			t.Fatalf("answer %+v, want cloned", rep)
		}
		got := make([]byte, len(o.want)+1)
		if n, err := r.Read(got); err != nil || string(got[:n]) != o.want {
			t.Errorf("the sandbox says %q, %v; want %q", got[:n], err, o.want)
		}
		r.Close()
		unix.Close(init[0])
	}
}

func TestTapeFailuresNameTheirStep(t *testing.T) {
	f := startFar(t)
	for _, c := range []struct {
		name  string
		write func(b *Builder)
		step  string
		errno int64
	}{
		{"error", func(b *Builder) {
			b.Call("fine", unix.SYS_GETPID)
			b.Call("open what is not there", unix.SYS_OPENAT, Int(unix.AT_FDCWD), Str("/nonexistent"), Int(0))
		}, "open what is not there", int64(unix.ENOENT)},
		{"unexpected result", func(b *Builder) {
			b.Expect("be somebody else", 1, unix.SYS_GETPPID)
		}, "be somebody else", -int64(os.Getpid())},
		{"unequal memory", func(b *Builder) {
			b.Equal("compare", Str("abc"), Str("abd"), 3)
		}, "compare", int64(unix.EPERM)},
		{"no program", func(b *Builder) {
			b.Exec("/nonexistent/a", Strings(nil), Strings(nil)).Exec("/nonexistent/b", Strings(nil), Strings(nil)).NotFound()
		}, StepExec, int64(unix.ENOENT)},
		{"a program without permission outranks one that is absent", func(b *Builder) {
			b.Exec("/nonexistent/a", Strings(nil), Strings(nil)).Exec("/etc/passwd", Strings(nil), Strings(nil)).Exec("/nonexistent/b", Strings(nil), Strings(nil)).NotFound()
		}, StepExec, int64(unix.EACCES)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder(0)
			c.write(b)
			tape, rep := f.run(t, b)
			if rep.Kind != RepFail || tape.Step(rep.A) != c.step || rep.B != c.errno {
				t.Errorf("answer %+v at %q, want a failure at %q with %d", rep, tape.Step(rep.A), c.step, c.errno)
			}
		})
	}
}

// What the far side writes through an Arg it can compare through the same Arg.
func TestSharedBuffer(t *testing.T) {
	f := startFar(t)
	for _, c := range []struct {
		want Kind
		dev  string
	}{{RepDone, "/dev/null"}, {RepFail, "/dev/zero"}} {
		var st unix.Stat_t
		if err := unix.Stat("/dev/null", &st); err != nil {
			t.Fatal(err)
		}
		b := NewBuilder(0)
		buf := Data(make([]byte, 256))
		b.Call("stat", unix.SYS_NEWFSTATAT, Int(unix.AT_FDCWD), Str(c.dev), buf, Int(0))
		b.Equal("the same file", buf, Data(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, st.Dev), st.Ino)), 16)
		if _, rep := f.run(t, b); rep.Kind != c.want {
			t.Errorf("%s: answer %+v, want kind %d", c.dev, rep, c.want)
		}
	}
}

func TestIgnoredErrors(t *testing.T) {
	f := startFar(t)
	b := NewBuilder(0)
	b.Try("ignore anything", unix.SYS_CLOSE, Int(-1))
	b.CallUnless("ignore EBADF", unix.EBADF, unix.SYS_CLOSE, Int(-1))
	if _, rep := f.run(t, b); rep.Kind != RepDone {
		t.Errorf("answer %+v, want done", rep)
	}
	b = NewBuilder(0)
	b.CallUnless("ignore EPERM only", unix.EPERM, unix.SYS_CLOSE, Int(-1))
	if _, rep := f.run(t, b); rep.Kind != RepFail || rep.B != int64(unix.EBADF) {
		t.Errorf("answer %+v, want EBADF", rep)
	}
}

// A message longer than a datagram comes in a memfd.
func TestBigMessage(t *testing.T) {
	f := startFar(t)
	b := NewBuilder(0)
	big := bytes.Repeat([]byte{7}, 1<<20)
	b.Equal("compare", Data(big), Data(big), len(big))
	tape, err := b.Encode(MsgTape, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.MemfdCreate("big", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(mem)
	if _, err := unix.Write(mem, tape.Message); err != nil {
		t.Fatal(err)
	}
	f.send(t, Message(MsgTape, FlagBig, 0, 0, 0, uint64(len(tape.Message))), mem)
	if rep := f.recv(t); rep.Kind != RepDone {
		t.Errorf("answer %+v, want done", rep)
	}
}

// Every pointer of an encoded tape, followed as the far side does, leads to
// the bytes that were given.
func TestPointers(t *testing.T) {
	b := NewBuilder(0)
	bpf := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 3)
	argv := []string{"a", "", "longer than a word", "d"}
	b.Call("x", 1, Str("path"), Strings(argv), Filter(bpf), R(3), Int(-1))
	for extra := range 3 { // odd and even numbers of relocations
		if extra > 0 {
			b.Call("y", 2, Str(fmt.Sprint(extra)))
		}
		tape, err := b.Encode(MsgTape, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := machine(tape.Message)
		d := m.data()
		if got := d.str(m.arg(0, 0)); got != "path" {
			t.Errorf("string is %q", got)
		}
		for i, want := range argv {
			if got := d.str(d.word(m.arg(0, 1) + uint64(8*i))); got != want {
				t.Errorf("argument %d is %q, want %q", i, got, want)
			}
		}
		if end := d.word(m.arg(0, 1) + uint64(8*len(argv))); end != 0 {
			t.Errorf("the array ends with %#x", end)
		}
		prog := m.arg(0, 2)
		if n := binary.LittleEndian.Uint16(d[prog:]); int(n) != len(bpf)/8 {
			t.Errorf("the filter has %d instructions", n)
		}
		code := d.word(prog + 8)
		if !bytes.Equal(d[code:code+uint64(len(bpf))], bpf) {
			t.Error("the filter's instructions differ")
		}
		if m.arg(0, 3) != 3 || m[headerSize+4] != 1<<3 || m[headerSize+7] != 1<<0|1<<1|1<<2 {
			t.Error("registers and pointers are not marked as such")
		}
	}
}

// machine follows pointers in a message at address 0.
type machine []byte

func (m machine) word(at uint64) uint64 { return binary.LittleEndian.Uint64(m[at:]) }
func (m machine) arg(op, i int) uint64  { return m.word(uint64(headerSize + op*opSize + 16 + 8*i)) }

// data is what stands behind the operations, where pointers lead.
func (m machine) data() machine { return m[binary.LittleEndian.Uint32(m[20:]):] }
func (m machine) str(at uint64) string {
	b := m[at:]
	return string(b[:bytes.IndexByte(b, 0)])
}

func FuzzTape(f *testing.F) {
	f.Add("path", []byte{1, 2, 3}, uint8(2))
	f.Add("", []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, s string, data []byte, n uint8) {
		if bytes.IndexByte([]byte(s), 0) >= 0 {
			t.Skip("a NUL in a string is refused before")
		}
		b := NewBuilder(0)
		var list []string
		for range n % 32 {
			list = append(list, s)
		}
		b.Call("x", 1, Data(data), Str(s), Strings(list))
		tape, err := b.Encode(MsgTape, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := machine(tape.Message)
		d := m.data()
		if got := d[m.arg(0, 0) : m.arg(0, 0)+uint64(len(data))]; !bytes.Equal(got, data) {
			t.Errorf("data is %x, want %x", got, data)
		}
		if got := d.str(m.arg(0, 1)); got != s {
			t.Errorf("string is %q, want %q", got, s)
		}
		for i := range list {
			if got := d.str(d.word(m.arg(0, 2) + uint64(8*i))); got != s {
				t.Errorf("element %d is %q, want %q", i, got, s)
			}
		}
	})
}

func FuzzDecodeReport(f *testing.F) {
	f.Add(make([]byte, reportSize))
	f.Add(append([]byte{byte(RepExit)}, make([]byte, reportSize-1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReport(b)
		if err == nil && (len(b) != reportSize || r.Kind < RepDone || r.Kind > RepExit) {
			t.Errorf("accepted %d bytes of kind %d", len(b), r.Kind)
		}
	})
}

func TestStageError(t *testing.T) {
	err := error(&StageError{Stage: "sandbox", Step: "mount proc on /proc", Errno: unix.EPERM})
	if !errors.Is(err, unix.EPERM) {
		t.Error("the errno is not found")
	}
	if got, want := err.Error(), "cannot set up sandbox: mount proc on /proc: operation not permitted"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}

func TestTooManyArguments(t *testing.T) {
	b := NewBuilder(0)
	b.Call("x", 1, Int(1), Int(2), Int(3), Int(4), Int(5), Int(6), Int(7))
	if _, err := b.Encode(MsgTape, 0); err == nil {
		t.Error("seven arguments were accepted")
	}
}
