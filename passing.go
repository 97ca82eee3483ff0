package isolate

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/isolate-run/isolate/internal/splice"
)

// pipeSink is a writer that empties a pipe into itself, so that output which
// nobody has to look at is not copied. *splice.Sink says what the methods do.
type pipeSink interface {
	TakePipe(pipe int, most int64) (int64, error)
	Widen()
}

// sinkOf is nil if w has to be written to.
func sinkOf(w io.Writer) pipeSink {
	switch w := w.(type) {
	case pipeSink:
		return w
	case *os.File:
		if s, err := splice.NewSink(w); err == nil {
			return s
		}
	}
	return nil
}

// pass moves the first half of what comes through a pipe on as long as that can
// be done without looking at it. It returns io.EOF at the pipe's end; everything
// else is left to who copies.
func pass(from *os.File, to *capped) error {
	if to.sink == nil || to.answer != nil || to.sum != nil {
		return nil
	}
	conn, err := from.SyscallConn()
	if err != nil {
		return err
	}
	wide := widening{began: time.Now()}
	defer wide.end()
	for to.passed < to.head {
		var n int64
		var failed error
		// the program's end is a deadline of the pipe, and seen here each time
		err := conn.Read(func(pipe uintptr) bool {
			n, failed = to.sink.TakePipe(int(pipe), to.head-to.passed)
			if wide.due(n) {
				splice.Widen(int(pipe))
				to.sink.Widen()
			}
			return n > 0 || failed != nil
		})
		if err == nil {
			err = failed
		}
		to.total += n
		to.passed += n
		if err != nil {
			// a sink that does not take pipes may take what is written
			if failed != nil && failed != io.EOF && !errors.Is(failed, errors.ErrUnsupported) {
				to.failed = true
				to.unwritten += n // taken out of the pipe, and not written
			}
			return err
		}
	}
	return nil
}

// feed copies standard input. It is copied and not moved: pages that a program
// can write to through its end of the pipe must not be those of a file.
func feed(to *os.File, from io.Reader) {
	if _, file := from.(*os.File); !file {
		if all, ok := from.(io.WriterTo); ok {
			_, _ = all.WriteTo(to)
			return
		}
	}
	conn, err := to.SyscallConn()
	if err != nil {
		return
	}
	kept := drainBuffers.Get().(*[drainBuffer]byte)
	defer drainBuffers.Put(kept)
	buf := kept[:]
	wide := widening{began: time.Now()}
	defer wide.end()
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		if wide.due(int64(n)) {
			_ = conn.Control(func(pipe uintptr) { splice.Widen(int(pipe)) })
			buf = make([]byte, wideBuffer)
		}
	}
}

// wideBuffer is what is read at once for a wide pipe.
const wideBuffer = splice.Wide / 4

// widening decides when the pipes of a stream are worth being wide: when a
// mebibyte comes within 20 ms, which is when who writes and who reads do little
// but wait for each other.
type widening struct {
	began time.Time
	moved int64
	has   bool // a place among maxWide
	done  bool
}

const (
	wideAfter  = 1 << 20
	wideWithin = 20 * time.Millisecond
	// maxWide bounds the streams that have wide pipes: both pipes of all of them
	// are a quarter of what a user may have before the kernel makes all of the
	// user's new pipes narrow (fs.pipe-user-pages-soft, 64 MiB as it comes).
	maxWide = 8
)

var wideStreams atomic.Int32

func (w *widening) due(n int64) bool {
	if w.moved += n; w.done || w.moved < wideAfter {
		return false
	}
	now := time.Now()
	fast := now.Sub(w.began) < wideWithin
	w.began, w.moved = now, 0
	if !fast {
		return false
	}
	w.done = true
	if w.has = wideStreams.Add(1) <= maxWide; !w.has {
		wideStreams.Add(-1)
	}
	return w.has
}

func (w *widening) end() {
	if w.has {
		wideStreams.Add(-1)
	}
}
