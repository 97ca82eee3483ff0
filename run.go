package isolate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/workspace"
)

const killSignal = unix.SIGKILL

// company says whether a program has a sandbox to itself.
type company int

const (
	alone company = iota
	amongOthers
)

// killWait bounds how long the end of a killed tree may take before the run is
// reported as failed: the promise is 2 s, the rest is for a machine under load.
const killWait = 10 * time.Second

// checkCmd refuses a command that cannot be run under the plan.
func checkCmd(c Cmd, pl plan.Plan) error {
	var bad []plan.Problem
	add := func(what, rule, remedy string) {
		bad = append(bad, plan.Problem{What: what, Rule: rule, Remedy: remedy})
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		add("cannot run: no program", "Args is empty", "name a program: isolate exec -- PROGRAM [ARGUMENTS]")
	}
	for _, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			add("cannot run: an argument has a NUL byte", "no program can receive it", "remove it")
			break
		}
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			add("cannot set environment variable "+strconv.Quote(k), "names have no '=' and neither part has a NUL byte", "correct it")
		}
		if pl.Injects(k) {
			bad = append(bad, plan.Injected(k))
		}
	}
	if c.Dir != "" && (!path.IsAbs(c.Dir) || path.Clean(c.Dir) != c.Dir) {
		add("cannot work in "+strconv.Quote(c.Dir), "the working directory is an absolute, clean path inside", "for example /workspace/src")
	}
	if c.Wall < 0 || c.Wall > pl.Limits.Wall {
		add(fmt.Sprintf("cannot give the program %s", c.Wall), fmt.Sprintf("the policy of its sandbox gives at most %s", pl.Limits.Wall), "ask for less, or give the sandbox more: --time, or time in its policy")
	}
	if throughProc(c.Dir) {
		add("cannot work in "+strconv.Quote(c.Dir), "a working directory in /proc may lead out (CVE-2024-21626)", "use a directory below /workspace")
	}
	if len(c.Args) > 0 && throughProc(path.Clean(c.Args[0])) {
		add("cannot run "+strconv.Quote(c.Args[0]), "programs are not started through /proc (CVE-2024-21626)", "give the program's own path")
	}
	if c.Terminal != nil {
		if !pl.Terminals {
			add("cannot give a terminal", "profile "+pl.Profile+" has none", "use profile default")
		}
		if c.Stdin != nil || c.Stdout != nil || c.Stderr != nil {
			add("cannot give a terminal and streams", "Terminal takes the place of Stdin, Stdout and Stderr", "choose one")
		}
	}
	bad = append(bad, checkPreloaded(c, pl)...)
	for _, x := range workspace.CheckInputs(c.In) {
		bad = append(bad, plan.Problem(x))
	}
	if c.Out != "" {
		for _, x := range workspace.CheckOutput(c.Out) {
			bad = append(bad, plan.Problem(x))
		}
	}
	if len(bad) > 0 {
		return &plan.Refusal{Problems: bad}
	}
	return nil
}

// throughProc says whether a clean path is in /proc or is one of the links in
// /dev that lead there.
func throughProc(p string) bool {
	for _, dir := range []string{"/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// environment is the plan's with what the network adds and the command's own.
func environment(pl plan.Plan, net, own map[string]string) (env []string, searchPath string) {
	all := map[string]string{}
	for _, kv := range pl.Env {
		k, v, _ := strings.Cut(kv, "=")
		all[k] = v
	}
	for k, v := range net {
		if _, set := all[k]; !set { // the author's own wins
			all[k] = v
		}
	}
	for k, v := range own {
		all[k] = pl.Extend(k, all[k], v)
	}
	for k, v := range all {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env, all["PATH"]
}

// run runs one program and waits for its end.
func (b *box) run(ctx context.Context, c Cmd, with company) (Result, error) {
	over := make(chan struct{}, 2)
	var overrun func()
	if b.plan.Limits.EndOnOutput {
		overrun = func() { over <- struct{}{} }
	}
	term, s, err := b.connect(c, overrun)
	if err != nil {
		return b.failed(), err
	}
	prog := container.Program{Args: c.Args, Dir: c.Dir, CPUs: b.cpus()}
	own := c.Env
	if b.calls.hasSocket() {
		own = maps.Clone(own)
		if own == nil {
			own = map[string]string{}
		}
		own[socketVariable] = socketPath
	}
	prog.Env, prog.Path = environment(b.plan, b.netEnv, own)
	prog.Preloaded = preloadedCall(c.Args, prog.Env, b.plan)
	if prog.Dir == "" {
		prog.Dir = "/workspace"
	}
	if term != nil {
		prog.Terminal = &term.size
	} else {
		prog.Stdin, prog.Stdout, prog.Stderr = s.stdin, s.stdout, s.stderr
	}
	res, err := b.execute(ctx, c, prog, term, s, over, with)
	if err != nil {
		s.close()
		s.copying.Wait()
		return b.failed(), err
	}
	return res, nil
}

// connect makes the streams or the terminal of a command.
func (b *box) connect(c Cmd, over func()) (*terminal, *streams, error) {
	if c.Terminal != nil {
		t := newTerminal(c.Terminal, b.plan.Limits.Output, over)
		return t, &t.streams, nil
	}
	digest := noDigests
	if b.record != nil && b.record.logged {
		digest = withDigests
	}
	s, err := openStreams(c, b.plan.Limits.Output, over, digest)
	return nil, s, err
}

// execute prepares, checks, starts and watches the program.
func (b *box) execute(ctx context.Context, c Cmd, prog container.Program, term *terminal, s *streams, over <-chan struct{}, with company) (Result, error) {
	proc, err := b.sandbox.Prepare(patience(ctx, b.wall(c)), prog)
	if err != nil {
		return Result{}, explainStart(err, prog.Dir, with)
	}
	if err := proc.Check(); err != nil {
		proc.Abort()
		return Result{}, err
	}
	if term != nil {
		term.start(proc.Master)
	}
	before, called, kills := b.blocked(), b.calls.summary(), b.kills.Load()
	stood := b.clock.stood()
	var met cgroup.Usage // limits met before this run are not its reason
	if with == amongOthers {
		if met, err = b.sandbox.Usage(); err != nil {
			proc.Abort()
			return Result{}, fmt.Errorf("cannot read usage: %w", err)
		}
	} else if err := b.sandbox.Leaf().ResetCPU(); err != nil { // the start is not the program's
		proc.Abort()
		return Result{}, fmt.Errorf("cannot read usage: %w", err)
	}
	if err := b.record.begin(b, c, with); err != nil {
		proc.Abort()
		return Result{}, err
	}
	began := time.Now()
	var notStarted *container.NotStartedError
	if err := proc.Go(); errors.As(err, &notStarted) {
		notStarted.Name = c.Args[0]
	} else if err != nil {
		proc.Abort()
		return Result{}, err
	}
	s.started(c.Stdin)
	if c.Started != nil {
		c.Started(Running{b})
	}
	w := watch{box: b, proc: proc, with: with, wall: b.wall(c), over: over, met: met}
	cause, err := w.until(ctx, began)
	wall := time.Since(began)
	if with == alone {
		b.calls.end()
	}
	if err = errors.Join(err, b.record.failure(), b.calls.failure(ctx)); err != nil {
		return Result{}, err
	}
	if cause == "" && b.kills.Load() != kills && proc.Exit().Killed() {
		cause = ReasonCancelled
	}
	res := b.failed()
	res.Usage.Wall, res.Usage.Held = wall, b.clock.stood()-stood
	if term != nil {
		term.stop()
	}
	res.Stdout, res.Stderr = s.wait()
	res.Answer = s.answer()
	res.Blocked = b.blocked().Since(before)
	res.Net = b.netSummary()
	res.Calls = b.calls.since(called)
	if err := b.judge(&res, w, cause, notStarted); err != nil {
		return Result{}, err
	}
	if res.Answer != nil && res.Answer.From == AnswerLast && res.CommandExitCode() != 0 {
		res.Answer = &Answer{From: AnswerNone} // the last line of a failure is no result
	}
	return res, nil
}

// explainStart says in words of its own what only the far side can know: that a
// working directory is not there, or that the other programs of a kept sandbox
// have all its processes. Nothing can be copied in with a program of such a one.
func explainStart(err error, dir string, with company) error {
	if with == amongOthers && errors.Is(err, unix.EAGAIN) && strings.Contains(err.Error(), "set up program: fork") {
		return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
			What: "cannot start another program in this sandbox", Rule: "those in it have as many processes as its policy allows (pids)",
			Remedy: "wait until one has ended, or end one, or make a sandbox with a higher --pids",
		}}}
	}
	if with == amongOthers && errors.Is(err, container.ErrEnded) {
		return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
			What: "cannot start a program in this sandbox", Rule: "it has ended: its first process was killed, as by a machine that has no memory left",
			Remedy: "get the files that are wanted, and make a new one",
		}}}
	}
	remedy := "copy a directory there (--in DIR:NAME, Cmd.In in Go), or leave it out to work in /workspace"
	switch {
	case with == amongOthers && dir == "/workspace":
		remedy = "a program in the sandbox has just closed it to all: end that one, or make a new sandbox"
	case with == amongOthers:
		remedy = "make it in the sandbox first, or leave it out to work in /workspace"
	}
	for _, errno := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP} {
		if errors.Is(err, errno) && strings.Contains(err.Error(), "enter "+strconv.Quote(dir)) {
			return &plan.Refusal{Cause: err, Problems: []plan.Problem{{
				What: "cannot work in " + strconv.Quote(dir), Rule: errno.Error(), Remedy: remedy,
			}}}
		}
	}
	return err
}

// wall is the wall-clock limit of a program.
func (b *box) wall(c Cmd) time.Duration {
	if c.Wall > 0 {
		return c.Wall
	}
	return b.plan.Limits.Wall
}

// patience is when the start of a program has taken too long: at its wall-clock
// limit, or when the caller's context ends.
func patience(ctx context.Context, wall time.Duration) time.Time {
	limit := time.Now().Add(wall)
	if d, ok := ctx.Deadline(); ok && d.Before(limit) {
		return d
	}
	return limit
}

// cpus are the processors a run with a fractional share sees, so that pools
// which count processors do not oversize; nil means all.
func (b *box) cpus() []int {
	limit := b.plan.Limits.CPUs
	if limit == 0 {
		return nil
	}
	return someCPUs(limit)
}
