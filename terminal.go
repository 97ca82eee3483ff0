package isolate

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
)

// terminal is the host side of a run with a pseudo-terminal. Its output counts
// as standard output.
type terminal struct {
	streams
	t      *Terminal
	size   container.Size
	master *os.File
	quit   chan struct{}
}

func newTerminal(t *Terminal, limit int64, over func()) *terminal {
	size := container.Size{Rows: t.Size.Rows, Cols: t.Size.Cols}
	if size.Rows == 0 || size.Cols == 0 {
		size = container.Size{Rows: 24, Cols: 80}
	}
	return &terminal{
		streams: streams{outCap: newLive(t.Output, limit, over), errCap: newCapped(nil, 0, nil)},
		t:       t, size: size, quit: make(chan struct{}),
	}
}

// start relays between the caller and the master. The master is made
// non-blocking first, so that closing it ends the reads.
func (t *terminal) start(master *os.File) {
	fd := int(master.Fd()) // puts the descriptor into blocking mode
	_ = unix.SetNonblock(fd, true)
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	master.Close()
	if err != nil {
		return
	}
	t.master = os.NewFile(uintptr(dup), "terminal")
	t.copying.Add(1)
	go func() {
		defer t.copying.Done()
		drain(t.master, t.outCap) // ends with EIO when the last slave is closed
	}()
	if t.t.Input != nil {
		go func() { _, _ = io.Copy(t.master, t.t.Input) }()
	}
	if t.t.Resize != nil {
		go t.resize()
	}
}

func (t *terminal) resize() {
	for {
		select {
		case <-t.quit:
			return
		case s, ok := <-t.t.Resize:
			if !ok {
				return
			}
			c, err := t.master.SyscallConn()
			if err != nil {
				return
			}
			_ = c.Control(func(fd uintptr) {
				_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
			})
		}
	}
}

// stop ends the relay after the program has ended: what it wrote has been
// read when the master reports the end.
func (t *terminal) stop() {
	close(t.quit)
	t.copying.Wait()
	t.master.Close()
}
