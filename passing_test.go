package isolate

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// osPipe is a pipe whose writing end stands for a program's or a caller's.
func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// written hides that a writer is a file, so that it is written to.
type written struct{ io.Writer }

// What is moved arrives and counts as what is copied does, whatever the limit.
func TestPassed(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 300_000) // wide pipes, if it goes fast
	for _, limit := range []int64{1, 5000, 2 << 20, int64(len(data)), 3 * int64(len(data))} {
		var said [2][]byte
		var came [2]Stream
		for i, hide := range []func(io.Writer) io.Writer{
			func(w io.Writer) io.Writer { return w },
			func(w io.Writer) io.Writer { return written{w} },
		} {
			near, program := osPipe(t)
			reads, to := osPipe(t)
			c := newCapped(hide(to), limit, nil)
			if (c.sink != nil) != (i == 0) {
				t.Fatal("a pipe is not recognized, or something else is")
			}
			go func() { program.Write(data); program.Close() }()
			counted := make(chan Stream)
			go func() {
				drain(near, c)
				s := c.finish()
				to.Close()
				counted <- s
			}()
			var err error
			if said[i], err = io.ReadAll(reads); err != nil {
				t.Fatal(err)
			}
			came[i] = <-counted
		}
		if !bytes.Equal(said[0], said[1]) {
			t.Errorf("limit %d: %d bytes arrive if moved, %d if copied", limit, len(said[0]), len(said[1]))
		}
		if came[0].Total != came[1].Total || came[0].Dropped != came[1].Dropped || came[0].Unwritten != 0 {
			t.Errorf("limit %d: moved %+v, copied %+v", limit, came[0], came[1])
		}
	}
	if n := wideStreams.Load(); n != 0 {
		t.Errorf("%d streams still have wide pipes", n)
	}
}

// A reader that goes away ends the passing on, not the program: the rest is
// counted.
func TestPassedToNobody(t *testing.T) {
	near, program := osPipe(t)
	reads, to := osPipe(t)
	c := newCapped(to, 1<<30, nil)
	over := make(chan struct{})
	go func() { drain(near, c); close(over) }()
	io.WriteString(program, "read")
	if _, err := io.ReadFull(reads, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	reads.Close()
	if _, err := program.Write(make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	program.Close()
	<-over
	if s := c.finish(); s.Total != 4+1<<20 || s.Unwritten != 1<<20 || s.Dropped != 0 {
		t.Errorf("%d of %d unwritten, %d dropped", s.Unwritten, s.Total, s.Dropped)
	}
}

// halfway is a sink that takes something out of a pipe and cannot write it, as
// one that looks at what it passes on.
type halfway struct{ io.Writer }

func (halfway) TakePipe(pipe int, most int64) (int64, error) {
	n, _ := unix.Read(pipe, make([]byte, 100))
	return int64(n), unix.EPIPE
}

func (halfway) Widen() {}

// What was taken out of the pipe is counted, too, if it was not written.
func TestPassedHalfway(t *testing.T) {
	near, program := osPipe(t)
	c := newCapped(halfway{io.Discard}, 1<<20, nil)
	if _, err := program.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	program.Close()
	drain(near, c)
	if s := c.finish(); s.Total != 1000 || s.Unwritten != 1000 {
		t.Errorf("%d of %d bytes are unwritten", s.Unwritten, s.Total)
	}
}

// Who does not read holds the program up.
func TestPassedSlowly(t *testing.T) {
	near, program := osPipe(t)
	reads, to := osPipe(t)
	c := newCapped(to, 1<<30, nil)
	go func() { drain(near, c); to.Close() }()
	_ = program.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := program.Write(make([]byte, 64<<20))
	if err == nil {
		t.Error("the program was not held up")
	}
	program.Close()
	if got, err := io.Copy(io.Discard, reads); got != int64(n) || err != nil {
		t.Errorf("%d of %d bytes arrive, %v", got, n, err)
	}
}

// What holds the pipe open after the program's end, and goes on writing, is
// not waited for.
func TestPassedUntilTheEnd(t *testing.T) {
	near, program := osPipe(t)
	reads, to := osPipe(t)
	go io.Copy(io.Discard, reads)
	c := newCapped(to, 1<<40, nil)
	over := make(chan struct{})
	go func() { drain(near, c); close(over) }()
	go func() {
		for {
			if _, err := program.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	_ = near.SetReadDeadline(time.Now())
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		t.Error("still waiting")
	}
}

// Output that somebody looks at is copied.
func TestWhatIsLookedAtIsNotPassed(t *testing.T) {
	near, program := osPipe(t)
	reads, to := osPipe(t)
	go io.Copy(io.Discard, reads)
	c := newCapped(to, 1<<20, nil)
	c.answer = new(answerScan)
	io.WriteString(program, "RESULT: 42\n")
	program.Close()
	drain(near, c)
	if a := c.answer.answer(); a.Text != "42" {
		t.Errorf("%+v", a)
	}
}

// Standard input arrives as it is, be it much or little.
func TestFeed(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 300_000)
	for _, from := range []io.Reader{bytes.NewReader(data), struct{ io.Reader }{bytes.NewReader(data)}} {
		near, program := osPipe(t)
		go func() { feed(program, from); program.Close() }()
		if got, err := io.ReadAll(near); !bytes.Equal(got, data) || err != nil {
			t.Errorf("%d of %d bytes arrive, %v", len(got), len(data), err)
		}
	}
}
