package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/cmd/isolate/internal/safeterm"
	"github.com/isolate-run/isolate/internal/splice"
)

// stream is one of our output streams as the program's output meets it. A
// terminal gets text only; anything else gets the bytes as they are.
type stream struct {
	dst  io.Writer
	text *safeterm.Writer // nil if it is no terminal
	// onLoss is called once with the error of what cannot be written: EPIPE when
	// nobody reads any more. Nil is nothing.
	onLoss func(error)
	// tail keeps the end of what is written; nil is nothing.
	tail *program.Tail
	// sink is dst, if it can empty a pipe into itself; nil if not.
	sink pipeSink
	// gate is what has to be passed before a terminal is written to; nil is open.
	gate *gate

	// brief says that tail is of a stream that may be moved but for its end: what
	// came before that is not in tail then.
	brief bool

	// looked says that the last byte is asked for.
	looked bool

	mu   sync.Mutex
	last byte // written; 0 at the start
	err  error
}

// pipeSink is what *splice.Sink and *server.Stdio are.
type pipeSink interface {
	TakePipe(pipe int, most int64) (int64, error)
	Widen()
}

func newStream(dst io.Writer, onLoss func(error)) *stream {
	s := &stream{dst: dst, onLoss: onLoss}
	if _, ok := asTerminal(dst); ok {
		s.text = safeterm.NewText(dst)
		s.dst = s.text
		return s
	}
	switch dst := dst.(type) {
	case pipeSink:
		s.sink = dst
	case *os.File:
		if sink, err := splice.NewSink(dst); err == nil {
			s.sink = sink
		}
	}
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	if s.text != nil {
		defer s.gate.pass()()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > 0 {
		s.last = p[len(p)-1]
	}
	if s.tail != nil {
		_, _ = s.tail.Write(p)
	}
	n, err := s.dst.Write(p)
	s.note(err)
	return n, err
}

// TakePipe moves what is in a pipe here, if nobody has to look at it.
func (s *stream) TakePipe(pipe int, most int64) (int64, error) {
	switch {
	case s.sink == nil || s.looked || s.tail != nil && !s.brief:
		return 0, errors.ErrUnsupported
	case s.tail != nil:
		// the last bytes in the pipe may be the last of all
		waiting, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
		if err != nil || waiting <= s.tail.Size {
			return s.copyPiece(pipe, most)
		}
		most = min(most, int64(waiting-s.tail.Size))
		s.tail = &program.Tail{Size: s.tail.Size}
	}
	n, err := s.sink.TakePipe(pipe, most)
	if err != nil && err != io.EOF && !errors.Is(err, errors.ErrUnsupported) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(err)
	}
	return n, err
}

// copyPiece is TakePipe by copying.
func (s *stream) copyPiece(pipe int, most int64) (int64, error) {
	var b [4096]byte
	for {
		n, err := unix.Read(pipe, b[:min(most, int64(len(b)))])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, errors.ErrUnsupported // who copies meets it again
		case n == 0:
			return 0, io.EOF
		}
		_, err = s.Write(b[:n])
		return int64(n), err
	}
}

// Widen makes the stream hold more if it is a pipe.
func (s *stream) Widen() {
	if s.sink != nil {
		s.sink.Widen()
	}
}

// note keeps the first error and tells of it.
func (s *stream) note(err error) {
	if err != nil && s.err == nil {
		s.err = err
		if s.onLoss != nil {
			s.onLoss(err)
		}
	}
}

// midLine says whether a terminal shows a line of the program without end.
func (s *stream) midLine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text != nil && s.last != 0 && s.last != '\n'
}

// end writes what the filter still holds and gives the error that cost the
// caller output. That nobody reads any more is none.
func (s *stream) end(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != nil && s.err == nil {
		s.err = s.text.End()
	}
	var path *os.PathError
	switch {
	case s.err == nil || errors.Is(s.err, syscall.EPIPE):
		return nil
	case errors.As(s.err, &path):
		return fmt.Errorf("cannot write %s: %w", name, path.Err)
	}
	return fmt.Errorf("cannot write %s: %w", name, s.err)
}
