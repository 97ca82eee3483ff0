package isolate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// capped keeps the first and the last half of what is written to it, or passes
// the first half on as it comes and the last half at the end. It is written to
// by one goroutine.
type capped struct {
	to   io.Writer // nil: keep
	sink pipeSink  // to, if it can empty a pipe into itself; nil if not
	kept []byte    // the first half, if to is nil
	head int64     // bytes the first half may have
	tail ring
	over func() // called once when the limit is passed; may be nil
	// alarm is a limit that is told but drops nothing; 0 means none.
	alarm int64
	// answer looks at all that is written; nil means that nobody asked.
	answer *answerScan

	// sum digests all that is written; nil means that nobody asked.
	sum hash.Hash

	total  int64
	passed int64 // bytes of the first half so far
	failed bool  // to has failed
	// unwritten is what to did not take.
	unwritten int64
	overrun   bool
}

func newCapped(to io.Writer, limit int64, over func()) *capped {
	return &capped{to: to, sink: sinkOf(to), head: limit - limit/2, tail: ring{limit: limit / 2}, over: over}
}

// newLive is for a terminal: somebody watches, so everything is passed on as it
// comes and nothing kept; passing the limit is told all the same.
func newLive(to io.Writer, limit int64, over func()) *capped {
	c := newCapped(to, math.MaxInt64, nil)
	c.alarm, c.over = limit, over
	return c
}

func (c *capped) write(p []byte) {
	c.total += int64(len(p))
	if c.answer != nil {
		c.answer.write(p)
	}
	if c.sum != nil {
		c.sum.Write(p)
	}
	if c.alarm > 0 && c.total > c.alarm && !c.overrun {
		c.overrun = true
		if c.over != nil {
			c.over()
		}
	}
	if n := min(c.head-c.passed, int64(len(p))); n > 0 {
		c.passed += n
		c.emit(p[:n])
		p = p[n:]
	}
	if len(p) == 0 {
		return
	}
	c.tail.write(p)
	if c.tail.lost > 0 && !c.overrun {
		c.overrun = true
		if c.over != nil {
			c.over()
		}
	}
}

func (c *capped) emit(p []byte) {
	if c.to == nil {
		c.kept = append(c.kept, p...)
		return
	}
	if c.failed {
		c.unwritten += int64(len(p))
		return
	}
	if _, err := c.to.Write(p); err != nil {
		c.failed = true
		c.unwritten += int64(len(p))
	}
}

// finish passes the last half on and returns what became of the stream.
func (c *capped) finish() Stream {
	if c.tail.lost > 0 && !c.failed {
		c.emit(fmt.Appendf(nil, "\n[isolate: %d bytes dropped]\n", c.tail.lost))
	}
	if rest := c.tail.bytes(); len(rest) > 0 { // no empty writes: to some writers they mean the end
		c.emit(rest)
	}
	s := Stream{Kept: c.kept, Total: c.total, Dropped: c.tail.lost, Unwritten: c.unwritten}
	if c.sum != nil {
		s.SHA256 = hex.EncodeToString(c.sum.Sum(nil))
	}
	return s
}

// ring keeps the last limit bytes. Its memory grows with what comes.
type ring struct {
	limit int64
	buf   []byte
	start int
	lost  int64
}

func (r *ring) write(p []byte) {
	if over := int64(len(p)) - r.limit; over > 0 {
		r.lost += over + int64(len(r.buf))
		p = p[over:]
		r.buf, r.start = r.buf[:0], 0
	}
	if room := int(r.limit) - len(r.buf); room > 0 {
		n := min(room, len(p))
		r.buf = append(r.buf, p[:n]...)
		p = p[n:]
	}
	r.lost += int64(len(p))
	for len(p) > 0 {
		n := copy(r.buf[r.start:], p)
		r.start = (r.start + n) % len(r.buf)
		p = p[n:]
	}
}

func (r *ring) bytes() []byte {
	out := make([]byte, 0, len(r.buf))
	out = append(out, r.buf[r.start:]...)
	return append(out, r.buf[:r.start]...)
}

// streams are the pipes of one run. The far ends are handed to the program;
// the near ends are copied by goroutines that wait ends.
type streams struct {
	stdin, stdout, stderr *os.File // far ends; nil when handed over or absent
	near                  []*os.File
	input                 *os.File // near end of stdin
	outCap, errCap        *capped
	copying               sync.WaitGroup
}

// digests says whether streams are digested.
type digests int

const (
	noDigests digests = iota
	withDigests
)

// openStreams makes the pipes and starts the copying of output.
func openStreams(c Cmd, limit int64, over func(), digest digests) (*streams, error) {
	s := &streams{outCap: newCapped(c.Stdout, limit, over), errCap: newCapped(c.Stderr, limit, over)}
	if digest == withDigests {
		s.outCap.sum, s.errCap.sum = sha256.New(), sha256.New()
	}
	if c.Answer == FindAnswer {
		s.outCap.answer = new(answerScan)
	}
	var err error
	if c.Stdin != nil {
		if s.stdin, s.input, err = pipe(farReads); err != nil {
			return nil, err
		}
	}
	for _, o := range []struct {
		far *(*os.File)
		cap *capped
	}{{&s.stdout, s.outCap}, {&s.stderr, s.errCap}} {
		far, near, err := pipe(farWrites)
		if err != nil {
			s.close()
			return nil, err
		}
		*o.far = far
		s.near = append(s.near, near)
		s.copying.Add(1)
		go func() {
			defer s.copying.Done()
			drain(near, o.cap)
		}()
	}
	return s, nil
}

// farDoes says which end of a pipe is the program's: the one with this index.
type farDoes int

const (
	farReads farDoes = iota
	farWrites
)

// pipe makes a pipe whose near end is in the run time's poller. The far end is
// only handed over, and must block.
func pipe(far farDoes) (theirs, ours *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("cannot make pipe: %w", err)
	}
	near := fd[1-far]
	if err := unix.SetNonblock(near, true); err != nil {
		unix.Close(fd[0])
		unix.Close(fd[1])
		return nil, nil, fmt.Errorf("cannot prepare pipe: %w", err)
	}
	return os.NewFile(uintptr(fd[far]), "|"), os.NewFile(uintptr(near), "|"), nil
}

// drainBuffer is what a pipe holds by default. The buffers are kept: they were
// two thirds of all that a run allocates.
const drainBuffer = 64 << 10

var drainBuffers = sync.Pool{New: func() any { return new([drainBuffer]byte) }}

// drain reads until end of file, or until the program has ended: a program is
// never blocked by a full pipe because its caller's limit is met.
func drain(from *os.File, to *capped) {
	if pass(from, to) == io.EOF {
		return
	}
	kept := drainBuffers.Get().(*[drainBuffer]byte)
	defer drainBuffers.Put(kept)
	buf := kept[:]
	for {
		n, err := from.Read(buf)
		to.write(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drainRest(from, to, buf)
		}
		if err != nil {
			return
		}
	}
}

// drainRest reads what is in a pipe now.
func drainRest(from *os.File, to *capped, buf []byte) {
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		// who still writes could fill it for ever
		left, _ := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		for left > 0 {
			n, err := unix.Read(int(fd), buf)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				return
			}
			to.write(buf[:n])
			left -= n
		}
	})
}

// started closes the far ends, which the program has now, and begins to copy
// standard input. The reader may block for as long as its source does; nothing
// waits for it, and the program sees end of file when it ends.
func (s *streams) started(stdin io.Reader) {
	s.closeFar()
	if s.input == nil {
		return
	}
	w := s.input
	go func() {
		feed(w, stdin)
		w.Close()
	}()
}

func (s *streams) closeFar() {
	for _, f := range []**os.File{&s.stdin, &s.stdout, &s.stderr} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
}

// wait returns when the output of a program that has ended has been copied. All
// of it is in the pipes by now; in a kept sandbox something that the program
// left may hold them open, and is not waited for.
func (s *streams) wait() (stdout, stderr Stream) {
	for _, f := range s.near {
		_ = f.SetReadDeadline(time.Now())
	}
	s.copying.Wait()
	s.close()
	return s.outCap.finish(), s.errCap.finish()
}

// answer is the program's answer, once wait has returned; nil if nobody asked.
func (s *streams) answer() *Answer {
	if s.outCap.answer == nil {
		return nil
	}
	a := s.outCap.answer.answer()
	return &a
}

// close ends everything; the goroutines see end of file or an error.
func (s *streams) close() {
	s.closeFar()
	if s.input != nil {
		s.input.Close()
	}
	for _, f := range s.near {
		f.Close()
	}
}
