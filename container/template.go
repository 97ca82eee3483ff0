package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/preload"
)

// template is an interpreter that the cell has started ahead, with modules
// imported. It is a process of the keeper's in the cell's view; once it is ready
// it runs the keeper's code and forks the cell's seats, so that every process
// below a seat is a fork of the interpreter.
type template struct {
	leaf *cgroup.Leaf
	sock sock     // to it; without a file before it runs
	said *os.File // what it writes; nil before it runs
}

// Bounds of a template. Pages that the sandboxes' programs do not write to are
// charged here.
const (
	// templateMemory is twice the default of a sandbox, in bytes.
	templateMemory = 1 << 30
	// templatePIDs leaves room for the seats, which on cgroup v2 are counted
	// here, and for the threads that a library has while it is imported.
	templatePIDs = 1024
	// templatePID is its process id in the cell. Libraries compare process ids
	// to notice a fork, and the programs of a sandbox have low ones; it is below
	// the kernel's lowest default of kernel.pid_max, 32768.
	templatePID = 32000
	// importTimeout bounds how long the interpreter may take to be ready.
	importTimeout = 60 * time.Second
)

// forker is who forks seats.
func (c *Cell) forker() sock {
	if c.template != nil {
		return c.template.sock
	}
	return c.control
}

// preload starts the plan's interpreter and has it fork the first seat.
func (c *Cell) preload(p plan.Plan) error {
	t := c.template
	if err := t.leaf.Set(cgroup.Limits{Memory: templateMemory, PIDs: templatePIDs}, 0); err != nil {
		return fmt.Errorf("cannot set limits of the preloaded interpreter: %w", err)
	}
	tape, err := c.startTemplate(p)
	if err != nil {
		return err
	}
	leaf, err := c.base.Cgroup.NewLeaf()
	if err != nil {
		return err
	}
	seat, err := c.orderSeat(leaf, laterSeat)
	if err != nil {
		return errors.Join(err, leaf.Remove(0))
	}
	c.first = seat
	r, err := answerBy(time.Now().Add(importTimeout), t.sock, "template", tape)
	if err != nil {
		return t.explain(p, err)
	}
	r.close()
	return seat.joined()
}

// startTemplate has the keeper start the interpreter in its leaf.
func (c *Cell) startTemplate(p plan.Plan) (keeper.Tape, error) {
	t := c.template
	var flags uint32
	if t.leaf.FD != nil {
		flags |= keeper.FlagCgroup
	}
	doors, err := t.leaf.Doors()
	if err != nil {
		return keeper.Tape{}, err
	}
	defer closeAll(doors)
	tape, err := templateTape(p, flags, len(doors))
	if err != nil {
		return tape, err
	}
	ours, theirs, err := sockPair()
	if err != nil {
		return tape, err
	}
	defer theirs.Close()
	t.sock = ours
	script, err := memfd("preload", preload.Template)
	if err != nil {
		return tape, err
	}
	defer script.Close()
	if t.said, err = memfd("output", nil); err != nil {
		return tape, err
	}
	image, err := keeperFile()
	if err != nil {
		return tape, err
	}
	defer image.Close()
	fds := []int{int(theirs.Fd()), int(script.Fd()), int(t.said.Fd()), int(image.Fd())}
	for _, d := range doors {
		fds = append(fds, int(d.Fd()))
	}
	if t.leaf.FD != nil {
		fds = append(fds, int(t.leaf.FD.Fd()))
	}
	r, err := converse(c.control, "template", tape, tape.Message, fds...)
	if err != nil {
		return tape, err
	}
	r.close()
	return tape, nil
}

// memfd is a file in memory.
func memfd(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make memfd for the preloaded interpreter: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot fill memfd for the preloaded interpreter: %w", err)
	}
	return f, nil
}

// templateTape turns a child of the keeper into the interpreter. Its registers
// are the socket, the interpreter's program, a file for what it writes, the
// keeper's image, and the doors of its leaf.
func templateTape(p plan.Plan, flags uint32, doors int) (keeper.Tape, error) {
	b := keeper.NewBuilder(4 + doors)
	enterLeaf(b, 4, doors)
	// 1. descriptors: /dev/null, the file twice, then 3 to 5 as template.py has them
	b.Call("make a session", unix.SYS_SETSID)
	var high [4]keeper.Reg
	for i := range high {
		high[i] = b.CallReg("move descriptor "+strconv.Itoa(i), unix.SYS_FCNTL, keeper.R(keeper.Reg(i)), keeper.Int(unix.F_DUPFD_CLOEXEC), keeper.Int(64))
	}
	none := b.CallReg("open /dev/null", unix.SYS_OPENAT, atCwd, keeper.Str("/dev/null"), keeper.Int(unix.O_RDONLY|unix.O_CLOEXEC), null)
	b.Call("place descriptor 0", unix.SYS_DUP3, keeper.R(none), keeper.Int(0), null)
	for at, r := range []keeper.Reg{high[2], high[2], high[0], high[1], high[3]} {
		b.Call("place descriptor "+strconv.Itoa(at+1), unix.SYS_DUP3, keeper.R(r), keeper.Int(at+1), null)
	}
	sock := keeper.Int(3)
	b.ReportTo(sock)
	b.Call("close every other descriptor", unix.SYS_CLOSE_RANGE, keeper.Int(6), keeper.Word(0xffffffff), null)
	// 2. what a program would find: the keeper ignores the ends of its children
	b.Call("heed SIGCHLD", unix.SYS_RT_SIGACTION, keeper.Int(int(unix.SIGCHLD)), keeper.Data(make([]byte, 32)), null, keeper.Int(8))
	b.Call("set umask", unix.SYS_UMASK, keeper.Int(0o022))
	for _, l := range p.Rlimits {
		if l.Resource == unix.RLIMIT_CORE {
			setRlimit(b, l)
		}
	}
	// 3. no capability but the one without which nobody may map id 0 of the cell
	// into a new user namespace
	dropCapabilities(b, unix.CAP_SETFCAP)
	args := append([]string{preload.PythonProgram, "/proc/self/fd/4", strconv.Itoa(keeper.WarmEntry())}, p.Preload.Modules...)
	argv, env := keeper.Strings(args), keeper.Strings(preload.Environment(p.Env))
	for _, path := range candidates(preload.PythonProgram, searchPath(p.Env)) {
		b.Exec(path, argv, env)
	}
	b.NotFound()
	return b.Encode(keeper.MsgTemplate, flags, templatePID)
}

func searchPath(env []string) string {
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			return path
		}
	}
	return ""
}

// explain says why a template is not there (any more), in words of a refusal.
func (t *template) explain(p plan.Plan, err error) error {
	var stage *keeper.StageError
	what := "cannot preload " + strconv.Quote(p.Preload.String())
	switch {
	case errors.As(err, &stage) && stage.Step == keeper.StepExec:
		return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
			What: what, Rule: "the sandbox's PATH has no " + preload.PythonProgram + " that can be executed: " + stage.Errno.Error(),
			Remedy: "install Python where the sandbox sees it (below /usr, or in --rootfs), or leave --preload out",
		}}}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
			What: what, Rule: fmt.Sprintf("the interpreter was not ready after %s", importTimeout),
			Remedy: "name fewer modules, or leave --preload out",
		}}}
	case !ended(err):
		return err
	}
	return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
		What: what, Rule: t.lastWords(),
		Remedy: "name modules that python3 -c 'import …' can import in a sandbox without --preload, and that leave no thread and no open file behind",
	}}}
}

// ended tells whether an error means that the other side is gone.
func ended(err error) bool { return errors.Is(err, errEnded) || errors.Is(err, unix.EPIPE) }

// lastWords is the last line that the interpreter wrote: of a traceback, the
// error itself.
func (t *template) lastWords() string {
	const tail = 4096
	info, err := t.said.Stat()
	if err != nil {
		return "the interpreter ended"
	}
	text := make([]byte, tail)
	n, err := t.said.ReadAt(text, max(0, info.Size()-tail))
	if err != nil && !errors.Is(err, io.EOF) {
		return "the interpreter ended"
	}
	lines := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return "the interpreter ended: " + plaintext.Clean(last, 300)
	}
	return "the interpreter ended without a word; it may have used more than its 1 GiB of memory"
}

func (t *template) close() { _ = t.sock.close() }

// remove removes what is left when the template's process has ended.
func (t *template) remove() error {
	if t.said != nil {
		t.said.Close()
	}
	return t.leaf.Remove(5 * time.Second)
}

// TemplateError means that the cell's template has ended: the cell makes no
// further seat.
type TemplateError struct{ Err error }

func (e *TemplateError) Error() string {
	return fmt.Sprintf("cannot fork the preloaded interpreter: it has ended (%v); the next run starts it again", e.Err)
}

// Unwrap gives the cause to errors.Is.
func (e *TemplateError) Unwrap() error { return e.Err }

// lost explains a failure to get a seat.
func (c *Cell) lost(err error) error {
	if c.template != nil && ended(err) {
		return &TemplateError{err}
	}
	return err
}
