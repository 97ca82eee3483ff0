package cli

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/cmd/isolate/internal/safeterm"
)

// device is a stream with a descriptor behind it: a file, or one of another
// process.
type device interface {
	io.Writer
	syscall.Conn
}

// columns is how wide a terminal is; 0 if the stream is none, or if it does not
// say.
func columns(stream any) (width int) {
	d, is := asTerminal(stream)
	if !is {
		return 0
	}
	_ = control(d, func(fd int) (err error) {
		width, _, err = term.GetSize(fd)
		return err
	})
	return width
}

// asTerminal returns the stream as a device if it is a terminal.
func asTerminal(stream any) (device, bool) {
	d, ok := stream.(device)
	if !ok {
		return nil, false
	}
	is := false
	err := control(d, func(fd int) error {
		is = term.IsTerminal(fd)
		return nil
	})
	return d, err == nil && is
}

// control lends out the descriptor of a device. Fd of a file would put a
// stream that we share with the caller into blocking mode.
func control(d device, f func(fd int) error) error {
	c, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// session is the user's terminal while a program has one of its own: in raw
// mode, so that keys reach the program as they are typed.
type session struct {
	in, out device
	from    signalSource
	before  *term.State
	screen  *guarded
	resize  chan isolate.WindowSize
	changed chan os.Signal
	wait    sync.WaitGroup
	once    sync.Once
	err     error
}

// openSession puts the terminal into raw mode. The caller calls restore.
func openSession(from signalSource, in, out device) (*session, error) {
	var before *term.State
	err := control(in, func(fd int) (err error) {
		before, err = term.MakeRaw(fd)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &session{
		in: in, out: out, from: from, before: before,
		screen:  &guarded{to: safeterm.NewScreen(out)},
		resize:  make(chan isolate.WindowSize, 1),
		changed: make(chan os.Signal, 1),
	}
	from.notify(s.changed, syscall.SIGWINCH)
	s.wait.Go(s.watchSize)
	return s, nil
}

// terminal is what the program's side is connected to.
func (s *session) terminal(input io.Reader) *isolate.Terminal {
	return &isolate.Terminal{
		Input: input, Output: s.screen,
		Size: s.size(), Resize: s.resize,
	}
}

// size is the present size; zero where the terminal does not know.
func (s *session) size() isolate.WindowSize {
	var cols, rows int
	err := control(s.out, func(fd int) (err error) {
		cols, rows, err = term.GetSize(fd)
		return err
	})
	if err != nil {
		return isolate.WindowSize{}
	}
	return isolate.WindowSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// watchSize announces new sizes. One that nobody has taken yet is replaced.
func (s *session) watchSize() {
	for range s.changed {
		select {
		case <-s.resize:
		default:
		}
		s.resize <- s.size()
	}
}

// restore gives the terminal back as it was. It may be called again.
func (s *session) restore() error {
	s.once.Do(func() {
		s.from.stop(s.changed)
		close(s.changed)
		s.wait.Wait()
		_ = s.screen.end() // a terminal that is gone has nothing to restore
		// What is typed, or what the terminal answered to a question of the
		// program, was meant for the program and not for the user's shell.
		s.err = control(s.in, func(fd int) error {
			_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
			return term.Restore(fd, s.before)
		})
	})
	return s.err
}

// guarded is the screen of a session. The program may still be writing when a
// user who does not want to wait gets the terminal back.
type guarded struct {
	mu    sync.Mutex
	to    *safeterm.Writer
	ended bool
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return 0, io.ErrClosedPipe
	}
	return g.to.Write(p)
}

func (g *guarded) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	return g.to.End()
}
