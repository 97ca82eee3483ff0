// Package procgroup runs one of the host's own commands so that it can be ended
// as a whole: in a session and process group of its own, without a terminal,
// and killed when the host dies.
//
// What ends with the command: itself, and every process that stays in its
// process group, however deep. What escapes: a process that left the group by
// setsid or setpgid before the end; and, if the host is killed hard, everything
// but the command itself, which the kernel then kills. The group is killed when
// its leader ends, too, so nothing goes on in the background of a command that
// has answered. No subreaper is used: it would take over children of programs
// that embed the library.
//
// The package runs nothing of the sandbox and limits neither memory nor time.
// Kernel: any with waitid and WNOWAIT; pidfd is used by os.Process where it is
// there.
package procgroup

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command says what to run.
type Command struct {
	// Path is the program's file; nothing is looked up. Required.
	Path string
	// Args are the arguments after the name.
	Args []string
	// Dir is the working directory. Required.
	Dir string
	// Env is the whole environment, as "NAME=VALUE".
	Env []string
	// Stdin, Stdout and Stderr are the command's; nil means /dev/null. They
	// stay the caller's to close.
	Stdin, Stdout, Stderr *os.File
}

// Group is a running command with its process group.
type Group struct {
	pid  int
	done chan struct{}

	mu sync.Mutex
	// reaped is set once the process id may belong to somebody else.
	reaped bool
	state  *os.ProcessState
	err    error
}

// Start starts a command.
func Start(c Command) (*Group, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	defer null.Close()
	files := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	attr := &os.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	if attr.Env == nil {
		attr.Env = []string{} // nil would be the host's own
	}
	g := &Group{done: make(chan struct{})}
	started := make(chan error, 1)
	go g.run(c, attr, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", c.Path, err)
	}
	return g, nil
}

// run owns the command from its start to its end. It keeps its thread: the
// kernel sends the death signal when the thread that cloned ends, not the
// process.
func (g *Group) run(c Command, attr *os.ProcAttr, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(c.Path, append([]string{c.Path}, c.Args...), attr)
	if err != nil {
		started <- err
		return
	}
	g.pid = p.Pid
	started <- nil
	// The leader is not collected yet: until then its id, which is the
	// group's too, cannot be given to anybody else.
	err = unix.EINTR
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	g.mu.Lock()
	if err == nil { // else somebody else has collected it, and the id with it
		_ = unix.Kill(-p.Pid, unix.SIGKILL)
	}
	g.state, g.err = p.Wait()
	g.reaped = true
	g.mu.Unlock()
	close(g.done)
}

// Kill kills the whole group. It does nothing once the command has ended.
func (g *Group) Kill() { g.Signal(unix.SIGKILL) }

// Signal sends a signal to the whole group. It does nothing once the command
// has ended.
func (g *Group) Signal(s unix.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = unix.Kill(-g.pid, s)
	}
}

// Done is closed when the command has ended and its group was killed.
func (g *Group) Done() <-chan struct{} { return g.done }

// Wait waits for the end and says how the command itself ended. The error is
// one of waiting, as when somebody else collected the command.
func (g *Group) Wait() (*os.ProcessState, error) {
	<-g.done
	if g.err != nil {
		return nil, fmt.Errorf("cannot wait for process %d: %w", g.pid, g.err)
	}
	return g.state, nil
}
