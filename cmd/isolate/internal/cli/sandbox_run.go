package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// visit is a program that runs in a kept sandbox.
type visit struct {
	*app
	sandbox string
	request client.RunRequest
	meta    metaTarget
	result  *isolate.Result // nil: there is none
	input   input
}

// visitFlags are those of a program in a kept sandbox that a reader reads.
func visitFlags() []flagSpec { return append(startFlags(), timeFlag(), metaFlag()) }

func (a *app) sandboxRunCommand() *cobra.Command {
	c := &cobra.Command{Use: "run [flags] sandbox [--] program [argument ...]", Short: sandboxRunShort, Long: sandboxRunLong}
	f := addFlags(c, visitFlags())
	v := &visit{app: a, input: input{from: a.stdin}}
	a.asking(c, remoteFlags(flagSpec{name: "stdin", kind: kindSwitch, alone: "true"}), question{
		args: takesSome,
		read: func() []plan.Problem { return v.read(f) },
		do: func(ctx context.Context, c *client.Client, f asked, args []string) error {
			v.sandbox, v.request.Args, v.request.OpenInput = args[0], args[1:], f.on["stdin"]
			if err := v.readProgram(); err != nil {
				return err
			}
			if err := v.meta.clear(); err != nil {
				return &plan.Refusal{Cause: err, Problems: []plan.Problem{metaUnwritten(err)}}
			}
			return v.run(ctx, c)
		},
		conclude: v.conclude,
	})
	sandboxFlag(c, "time", visitTime)
	return c
}

// read reads visitFlags.
func (v *visit) read(f flags) []plan.Problem {
	r := &reader{app: v.app, flags: f}
	r.readMeta()
	r.readEnv()
	r.readDir()
	read(r, "time", &v.request.Time, func(text string) (string, error) {
		_, err := policy.ParseDuration(text)
		return text, err
	})
	v.meta, v.request.Env, v.request.Dir = r.request.meta, r.request.cmd.Env, r.request.cmd.Dir
	return r.problems
}

// readProgram takes the mark before the program away, and says what is wrong.
func (v *visit) readProgram() error {
	q := &v.request
	switch {
	case len(q.Args) > 0 && q.Args[0] == "--":
		q.Args = q.Args[1:]
	case len(q.Args) > 0 && strings.HasPrefix(q.Args[0], "-"):
		return &plan.Refusal{Problems: []plan.Problem{flagBehindSandbox(v.sandbox, q.Args[0])}}
	}
	if len(q.Args) == 0 {
		return &plan.Refusal{Problems: []plan.Problem{{What: "cannot run: no program", Remedy: "isolate sandbox run " + shellWord(v.sandbox) + " -- PROGRAM"}}}
	}
	return nil
}

// run runs the program on our streams. The exit code is the program's.
func (v *visit) run(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout, stderr := newStream(v.stdout, func(error) { cancel() }), newStream(v.stderr, nil)
	err := c.RunIn(ctx, v.sandbox, v.request, func(e client.Event) error {
		switch e.Type {
		case client.EventStarted:
			if v.request.OpenInput {
				// it may read for as long as its source has nothing
				go func() { _ = c.WriteStdin(ctx, e.ID, &v.input) }()
			}
		case client.EventStdout:
			_, _ = stdout.Write(e.Data) // end tells
		case client.EventStderr:
			_, _ = stderr.Write(e.Data)
		case client.EventResult:
			v.code, v.result = e.CommandExitCode, new(isolate.Result)
			if err := json.Unmarshal(e.Result, v.result); err != nil {
				v.result = nil
				return fmt.Errorf("cannot read how the program ended: %w", err)
			}
		case client.EventError:
			return &client.Error{Problems: e.Problems}
		}
		return nil
	})
	switch {
	case errors.Is(stdout.err, syscall.EPIPE):
		v.code = exitSignal + int(syscall.SIGPIPE)
		return nil
	case stdout.err != nil:
		err = nil // that we went away is no news
	}
	return errors.Join(err, stdout.end("standard output"), stderr.end("standard error"))
}

// conclude prints what a person should know and writes the document.
func (v *visit) conclude(problems []plan.Problem) {
	o := outcome{result: v.result, problems: problems, code: v.code, via: viaServer, reason: isolate.ReasonSandboxError}
	if len(problems) == 0 {
		o.reason = isolate.ReasonCancelled // where there is no result
	}
	if err := v.meta.write(o); err != nil {
		o.problems, v.code = append(o.problems, metaUnwritten(err)), exitRefused
	}
	v.print(o.problems...)
	if v.result == nil {
		return
	}
	if text := v.input.trouble(); text != "" {
		v.notice(text)
	}
	for _, line := range v.closing() {
		fmt.Fprintln(v.stderr, "isolate: "+line)
	}
}
