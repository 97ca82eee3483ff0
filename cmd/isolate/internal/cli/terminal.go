package cli

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/cmd/isolate/internal/safeterm"
)

// asTerminal returns the file behind a stream if it is a terminal.
func asTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return nil, false
	}
	// Fd would put a stream that we share with the caller into blocking mode.
	c, err := f.SyscallConn()
	if err != nil {
		return nil, false
	}
	is := false
	err = c.Control(func(fd uintptr) { is = term.IsTerminal(int(fd)) })
	return f, err == nil && is
}

// session is the user's terminal while a program has one of its own: in raw
// mode, so that keys reach the program as they are typed.
type session struct {
	in, out *os.File
	before  *term.State
	screen  *guarded
	resize  chan isolate.WindowSize
	changed chan os.Signal
	wait    sync.WaitGroup
	once    sync.Once
	err     error
}

// openSession puts the terminal into raw mode. The caller calls restore.
func openSession(in, out *os.File) (*session, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s := &session{
		in: in, out: out, before: before,
		screen:  &guarded{to: safeterm.NewScreen(out)},
		resize:  make(chan isolate.WindowSize, 1),
		changed: make(chan os.Signal, 1),
	}
	signal.Notify(s.changed, syscall.SIGWINCH)
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
	cols, rows, err := term.GetSize(int(s.out.Fd()))
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
		signal.Stop(s.changed)
		close(s.changed)
		s.wait.Wait()
		_ = s.screen.end() // a terminal that is gone has nothing to restore
		// What is typed, or what the terminal answered to a question of the
		// program, was meant for the program and not for the user's shell.
		_ = unix.IoctlSetInt(int(s.in.Fd()), unix.TCFLSH, unix.TCIFLUSH)
		s.err = term.Restore(int(s.in.Fd()), s.before)
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
