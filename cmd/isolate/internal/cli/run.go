package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/bridge/loan"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/server"
)

// Why the context of a run ended.
var (
	errSignal     = errors.New("a signal asked isolate to stop")
	errPipeClosed = errors.New("nobody reads standard output any more")
	errOutputLost = errors.New("its output cannot be written")
)

// outcome is what a request came to.
type outcome struct {
	// result is nil if there is none; reason then stands for it.
	result   *isolate.Result
	reason   isolate.Reason
	problems []plan.Problem
	// code is what the command exits with.
	code int
	// via is how the command was carried out.
	via via
	// midLine says that the terminal shows a line without end.
	midLine bool
	// repair is what --repair-prompt prints; empty if the program did not fail.
	repair string
	// wantsTools says that the program seems to have failed for want of tools.
	wantsTools bool
	// noName says that the program seems to have failed to look a name up.
	noName bool
	// ordered says that the server was asked to end the program.
	ordered bool
	// unsent is what OpenTelemetry was not told, and why; empty if nothing.
	unsent string
	// noInput says that standard input could not be read to its end, and why;
	// empty if it could.
	noInput string
	// openLine says that standard output, terminal or not, ends within a line.
	openLine bool
}

func refused(problems ...plan.Problem) outcome {
	return outcome{reason: isolate.ReasonSandboxError, problems: problems, code: exitRefused}
}

// do carries a request out, or refuses it, and says so in every place that
// was asked for. It is the end of exec and shell.
func (a *app) do(ctx context.Context, r request, problems []plan.Problem) {
	switch {
	case len(problems) > 0:
		a.conclude(r, refused(problems...))
	case r.explain != "":
		a.explain(ctx, r)
	default:
		if err := r.meta.clear(); err != nil {
			a.conclude(request{}, refused(metaUnwritten(err)))
			return
		}
		if err := r.clearAttestation(); err != nil {
			a.conclude(r, refused(attestUnwritten(r.attest, err)))
			return
		}
		i := a.watchSignals(ctx, programStops...)
		defer i.stop()
		a.conclude(r, a.attend(i, r))
	}
}

// conclude prints what a person should know and writes the document.
func (a *app) conclude(r request, o outcome) {
	o.via = a.via
	if o.via == "" {
		o.via = viaCold
	}
	o.problems = a.blame(o.problems)
	if a.gone != nil && a.gone() {
		return // a later command may have its document there already
	}
	if err := r.meta.write(o); err != nil {
		o.problems = append(o.problems, metaUnwritten(err))
		o.code = exitRefused
	}
	a.code = o.code
	var lines []string
	if o.result != nil {
		lines = closing(*o.result, r)
		if text := noNetwork(*o.result, r.policy, o.noName); text != "" {
			lines = append(lines, "isolate: "+text)
		}
	}
	if o.ordered {
		lines = append(lines, "isolate: "+endedByServer)
	}
	if o.noInput != "" {
		lines = append(lines, "isolate: "+o.noInput)
	}
	if o.wantsTools {
		lines = append(lines, "isolate: "+noToolsGiven)
	}
	if o.unsent != "" {
		lines = append(lines, "isolate: "+o.unsent)
	}
	if o.midLine && len(lines)+len(o.problems) > 0 {
		fmt.Fprintln(a.stderr)
	}
	a.print(o.problems...)
	for _, line := range lines {
		fmt.Fprintln(a.stderr, line)
	}
	if r.file != nil && r.file.printRepair && o.repair != "" {
		if o.openLine {
			a.say("\n")
		}
		a.say(o.repair)
	}
}

// explain prints the plan and runs nothing.
func (a *app) explain(ctx context.Context, r request) {
	rt, err := a.open(ctx, isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		a.code = a.refuse(a.blame(problemsOf(err))...)
		return
	}
	var p struct {
		plan.Plan
		Build *plan.Plan `json:"build,omitempty"`
	}
	p.Plan, err = rt.Plan(ctx, r.policy)
	if err == nil && r.build.command != "" {
		p.Build = new(plan.Plan)
		*p.Build, err = rt.Plan(ctx, r.buildPolicy())
	}
	if err = errors.Join(err, rt.Close()); err != nil {
		a.code = a.refuse(a.blame(problemsOf(err))...)
		return
	}
	text := p.Text() + explainTools(r.tools)
	if p.Build != nil {
		text += explainBuild(r.build.command, *p.Build)
	}
	if r.explain == explainJSON {
		b, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			a.code = a.refuse(a.blame(problemsOf(err))...)
			return
		}
		text = string(b) + "\n"
	}
	a.say(text)
	if r.unwritten != "" {
		a.notice(explainedOnly(r.unwritten))
	}
}

// attend runs the program and waits for its end, or for a user who has no
// time to wait. In that case the process ends while the sandbox is still
// there: it dies with the process, and the next command removes its remains.
func (a *app) attend(i *interrupts, r request) outcome {
	in := &input{from: a.stdin}
	if r.stdin {
		r.cmd.Stdin = in
	}
	if r.tty {
		s, err := a.openTerminal()
		if err != nil {
			return refused(noRawMode(err))
		}
		defer s.restore()
		r.cmd.Terminal = s.terminal(a.stdin)
	}
	done := make(chan outcome, 1)
	a.behind.Go(func() {
		done <- a.recorded(i, r.audit, func(l *audit.Log) outcome {
			r.cmd.Audit = l
			return r.attested(l, a.followed(i, r))
		})
	})
	select {
	case o := <-done:
		o.noInput = in.trouble()
		return o
	case <-i.forced:
		return outcome{
			reason:   isolate.ReasonCancelled,
			problems: []plan.Problem{stoppedTwice()},
			code:     exitSignal + int(i.signal()),
		}
	}
}

func (a *app) openTerminal() (*session, error) {
	in, inOK := asTerminal(a.stdin)
	out, outOK := asTerminal(a.stdout)
	if !inOK || !outOK {
		return nil, errNotATerminal
	}
	if w, of := in.(interface{ AwaitTerminal() error }); of { // of another process
		if err := w.AwaitTerminal(); err != nil {
			return nil, err
		}
	}
	return openSession(a.source(), in, out)
}

// followed runs the program of a request, and tells of it whom it is to be told.
func (a *app) followed(i *interrupts, r request) (o outcome) {
	t, end := a.openTelemetry(i.ctx, withoutMetrics, nil)
	a.telemetry = t
	o = a.once(i, r)
	end()
	o.unsent = a.unsent
	return o
}

// lossOf says why a run ends whose output cannot be written. On a full disk a
// program would be told so by its own write; here it is ended.
func lossOf(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return errPipeClosed
	}
	return errOutputLost
}

// lastWords is how much of standard error's end is looked at.
const lastWords = 4 << 10

// once runs the program of a request in a Runtime of its own.
func (a *app) once(i *interrupts, r request) outcome {
	stdout := newStream(a.stdout, func(err error) { i.cancel(lossOf(err)) })
	stderr := newStream(a.stderr, func(err error) {
		if !errors.Is(err, syscall.EPIPE) { // that nobody reads it is no harm
			i.cancel(lossOf(err))
		}
	})
	stderr.tail, stderr.brief = &program.Tail{Size: lastWords}, true
	if r.file != nil {
		stderr.brief = false
		stderr.tail.Size = program.RepairBytes
		stdout.looked = r.file.printRepair // which begins a line
	}
	if r.cmd.Terminal == nil {
		r.cmd.Stdout, r.cmd.Stderr = stdout, stderr
	}
	signatures := func() []stub.Signature { return nil }
	if r.tools.given {
		asking := newGate()
		stdout.gate, stderr.gate = asking, asking
		var done func()
		var problems []plan.Problem
		signatures, done, problems = a.giveTools(i.ctx, &r, asking)
		defer done()
		if len(problems) > 0 {
			return a.withoutResult(i, &plan.Refusal{Problems: problems, Cause: i.ctx.Err()})
		}
	}
	rt, err := a.open(i.ctx, a.runOptions(r))
	if err != nil {
		return a.withoutResult(i, err)
	}
	if problems := a.prepare(i.ctx, rt, &r); len(problems) > 0 {
		return refused(append(problems, problemsOf(rt.Close())...)...)
	}
	if r.build.command != "" {
		failed, remove, err := a.build(i, rt, &r)
		defer remove()
		if err != nil {
			return a.withoutResult(i, errors.Join(err, rt.Close()))
		}
		if failed != nil {
			o := buildFailed(failed, r.build.net.Mode)
			o.problems = append(o.problems, problemsOf(rt.Close())...)
			return o
		}
	}
	result, err := rt.Run(i.ctx, r.policy, r.cmd)
	closeErr := rt.Close()
	if err != nil {
		return a.withoutResult(i, errors.Join(err, closeErr))
	}
	o := outcome{result: &result, code: result.CommandExitCode(), midLine: stdout.midLine() || stderr.midLine()}
	if result.Reason == isolate.ReasonCancelled {
		if i.unread() {
			result.Detail = outputUnread
		}
		o.ordered = errors.Is(context.Cause(i.ctx), server.ErrKilled)
		o.code = i.exitCode(o.code)
	}
	o.noName = stderr.tail != nil && looksUp(stderr.tail.Bytes())
	if r.file != nil {
		o.repair = repair(result, r, signatures(), stderr.tail.Bytes())
		o.wantsTools = o.repair != "" && !r.tools.given && wantsTools(stderr.tail.Bytes())
		o.openLine = stdout.last != 0 && stdout.last != '\n'
	}
	for _, err := range []error{stdout.end("standard output"), stderr.end("standard error"), closeErr} {
		if err != nil {
			o.problems = append(o.problems, problemsOf(err)...)
			o.code = exitRefused
		}
	}
	return o
}

// giveTools gives the program of a request its tools: ours, or those of who
// asked for the run. The caller calls done, whether there are problems or not.
func (a *app) giveTools(ctx context.Context, r *request, asking *gate) (signatures func() []stub.Signature, done func(), problems []plan.Problem) {
	if a.lending != nil {
		h := &toolHost{Lender: loan.Lender{Conn: a.lending, Quiet: asking.shut}, notice: a.notice}
		r.cmd.ToolHost = h
		return func() []stub.Signature { return h.about.Signatures }, func() {}, nil
	}
	o, problems := a.openTools(ctx, r.tools)
	done = func() { _ = o.close() }
	if len(problems) > 0 {
		return nil, done, problems
	}
	if text := o.unasked(); text != "" {
		a.notice(text)
	}
	o.tools.Options.Approver = asking.guard(o.tools.Options.Approver)
	r.cmd.Tools = o.tools
	signatures = func() []stub.Signature {
		list, _ := signaturesOf(o.list) // they were checked
		return list
	}
	return signatures, done, nil
}

// runOptions are those of a Runtime for one run.
func (a *app) runOptions(r request) isolate.Options {
	return isolate.Options{Spares: isolate.NoSpares, Expect: isolate.OneCell, Telemetry: a.telemetry, Audit: r.cmd.Audit}
}

// withoutResult is the outcome of a run that gave an error. One that was told
// to stop before there was a program is no mistake of anybody.
func (a *app) withoutResult(i *interrupts, err error) outcome {
	if i.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return outcome{reason: isolate.ReasonCancelled, code: i.exitCode(exitRefused)}
	}
	return refused(problemsOf(err)...)
}

// exitCode is the code of a run that was told to stop: that of the signal
// which did it, as a shell reports it. Without one it is otherwise.
func (i *interrupts) exitCode(otherwise int) int {
	switch s := i.signal(); {
	case s != 0:
		return exitSignal + int(s)
	case i.unread():
		return exitSignal + int(syscall.SIGPIPE)
	}
	return otherwise
}

// unread says whether the run was told to stop because nobody reads its output.
func (i *interrupts) unread() bool {
	return i.signal() == 0 && errors.Is(context.Cause(i.ctx), errPipeClosed)
}
