package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bench/peers"
	"github.com/isolate-run/isolate/policy"
)

// The ways to start a program with isolate.
const (
	isolateName    = "isolate"
	unpreparedName = "isolate-unprepared"
	preloadedName  = "isolate-preloaded"
	servedName     = "isolate-exec-served"
	coldName       = "isolate-exec-cold"
)

// isolates is what the contenders of isolate use.
type isolates struct {
	ahead, unprepared *isolate.Runtime
	server            *os.Process  // nil if there is none
	ended             <-chan error // how it ended
	said              *os.File     // its standard output; nil if there is none
	serverErr         error
	socket            string
}

// open makes the runtimes and starts a server. That the server cannot be
// started is no error: its row says so.
func (c *comparison) open(ctx context.Context) error {
	var errAhead, errOther error
	c.isolate.ahead, errAhead = isolate.Open(ctx, isolate.Options{})
	c.isolate.unprepared, errOther = isolate.Open(ctx, isolate.Options{Spares: isolate.NoSpares})
	if err := errors.Join(errAhead, errOther); err != nil {
		return err
	}
	pl, err := c.isolate.ahead.Plan(ctx, policyFor(program{}))
	if err != nil {
		return err
	}
	for _, w := range pl.Weakenings {
		c.weakenings = append(c.weakenings, string(w))
	}
	if c.options.Executable != "" {
		c.isolate.serve(c)
	}
	return nil
}

// policyFor is the policy of a program: the tightest, and room for what it
// prints. Where limits cannot be set it does without; the report says so.
func policyFor(p program) policy.Policy {
	pol := policy.Policy{Allow: []policy.Weakening{policy.WeakLimits}}
	if p.output > 0 {
		pol.Output = outputRoom
	}
	return pol
}

// outputRoom is twice what is printed, so that nothing is dropped.
const outputRoom = 2 * outputBytes

// serve starts a server at a socket of its own, which ends with this process.
func (i *isolates) serve(c *comparison) {
	i.socket = filepath.Join(c.dir, "s")
	said, out, err := os.Pipe()
	if err != nil {
		i.serverErr = fmt.Errorf("cannot start the server: %w", err)
		return
	}
	i.said = said
	cmd := c.own("serve")
	cmd.Stdout = out
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// the kernel sends the death signal when the thread that cloned ends
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	err = <-started
	out.Close()
	if err != nil {
		i.serverErr = fmt.Errorf("cannot start the server: %w", err)
		return
	}
	i.server, i.ended = cmd.Process, ended
	if line, err := bufio.NewReader(io.LimitReader(said, maxSaid)).ReadString('\n'); err != nil || !strings.HasPrefix(line, "serving on ") {
		i.serverErr = errors.New("the server did not start: run isolate serve to see why")
	}
}

// ownName is what isolate's command is called, whatever its file is.
const ownName = "isolate"

// own is a command line of isolate's own command.
func (c *comparison) own(args ...string) *exec.Cmd {
	cmd := exec.Command(c.options.Executable, args...)
	cmd.Args[0] = ownName
	cmd.Env = c.ownEnviron()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

func (c *comparison) ownEnviron() []string {
	env := slices.DeleteFunc(slices.Clone(c.options.Environ), func(v string) bool { return strings.HasPrefix(v, "ISOLATE_") })
	return append(env, "ISOLATE_SOCKET="+c.isolate.socket, peers.Marker+"=1")
}

// close ends what open began.
func (i *isolates) close() error {
	var errs []error
	if i.server != nil {
		_ = i.server.Signal(syscall.SIGTERM) // one that has ended already has said so
		if err := <-i.ended; err != nil && i.serverErr == nil {
			errs = append(errs, fmt.Errorf("cannot end the server: %w", err))
		}
	}
	if i.said != nil {
		errs = append(errs, i.said.Close())
	}
	for _, r := range []*isolate.Runtime{i.ahead, i.unprepared} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

func (i *isolates) contenders(c *comparison) []*contender {
	also := []string{"limits by cgroup", "checked from outside before the program starts", "refused calls counted", "result says how it ended"}
	if slices.Contains(c.weakenings, string(policy.WeakLimits)) {
		also[0] = "limits of single processes"
	}
	served, cold := c.whole(), c.whole("--no-server")
	list := []*contender{
		{name: isolateName, is: "the library, a sandbox made ahead", prepare: library(i.ahead, noPreload), settle: settled(i.ahead)},
		{name: unpreparedName, kind: starting, is: "the library, a sandbox made when it is asked for", prepare: library(i.unprepared, noPreload), settle: settled(i.unprepared)},
		{name: preloadedName, kind: preloaded, is: "the library, forked from an interpreter started ahead", prepare: library(i.ahead, withPreload), settle: settled(i.ahead)},
		{name: servedName, kind: starting, is: "the whole command, where a server runs", prepare: served, settle: pause},
		{name: coldName, kind: starting, is: "the whole command, no server", prepare: cold},
	}
	for _, who := range list {
		who.also = also
	}
	for _, who := range list[3:] {
		if c.options.Executable == "" {
			who.missing = "the command is not known"
		}
	}
	if i.serverErr != nil {
		list[3].missing = i.serverErr.Error()
	}
	return list
}

// preloading says whether a program is forked from an interpreter.
type preloading int

const (
	noPreload preloading = iota
	withPreload
)

// library starts programs by Runtime.Run.
func library(r *isolate.Runtime, how preloading) func(program) (start, error) {
	return func(p program) (start, error) {
		pol := policyFor(p)
		if how == withPreload {
			spec, err := policy.ParsePreload(p.preload)
			if err != nil {
				return nil, err
			}
			pol.Preload = spec
		}
		return func(ctx context.Context, out io.Writer) error {
			cmd := isolate.Cmd{Args: p.args}
			if p.output > 0 {
				cmd.Stdout = out
			}
			if how == withPreload {
				cmd.Args = append([]string{"python3"}, p.args[1:]...) // the name that is preloaded
			}
			res, err := r.Run(ctx, pol, cmd)
			return unexpected(res, err)
		}, nil
	}
}

// unexpected says what went wrong with a run that was to succeed.
func unexpected(res isolate.Result, err error) error {
	if err == nil && (res.Reason != isolate.ReasonExit || res.ExitCode != 0) {
		err = fmt.Errorf("ended with %s %d: %s %.200q", res.Reason, res.ExitCode, res.Detail, res.Stderr.Kept)
	}
	return err
}

// settled waits until no sandbox is in use or being taken down, and as many
// are made ahead as there will be: what goes on behind one answer must not slow
// the next contender.
func settled(r *isolate.Runtime) func(context.Context) {
	return func(ctx context.Context) {
		for quiet := 0; quiet < 3 && ctx.Err() == nil; time.Sleep(200 * time.Microsecond) {
			if s := r.Stats(); s.Sandboxes == 0 && s.Preparing == 0 {
				quiet++
			} else {
				quiet = 0
			}
		}
	}
}

// pause is about what a server has to do behind an answer, which cannot be seen
// from here: a sandbox taken down and one made.
func pause(context.Context) { time.Sleep(20 * time.Millisecond) }

// whole starts programs by the command, with more flags.
func (c *comparison) whole(flags ...string) func(program) (start, error) {
	return func(p program) (start, error) {
		line := append([]string{c.options.Executable, "exec", "--allow", "weak-limits"}, flags...)
		if p.output > 0 {
			line = append(line, "--output", fmt.Sprintf("%dM", outputRoom>>20))
		}
		line = append(append(line, "--"), p.args...)
		return c.command(p, spawn{env: c.ownEnviron(), name: ownName}, func(int64) []string { return line }), nil
	}
}
