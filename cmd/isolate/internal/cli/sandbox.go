package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// sandboxCommand is about the sandboxes that a server keeps.
func (a *app) sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: sandboxShort, Long: sandboxLong, Args: cobra.ArbitraryArgs}
	c.AddCommand(a.sandboxNewCommand(), a.sandboxRunCommand(), a.sandboxPutCommand(), a.sandboxGetCommand(), a.sandboxLsCommand(), a.sandboxRmCommand())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			a.code = a.refuse(a.lost(cmd, args)...)
			return nil
		}
		return cmd.Help()
	}
	return c
}

// sandboxFlag sets a flag's help where another command has one of that name.
func sandboxFlag(c *cobra.Command, name, help string) { c.Flags().Lookup(name).Usage = help }

func (a *app) sandboxNewCommand() *cobra.Command {
	c := &cobra.Command{Use: "new [flags]", Short: sandboxNewShort, Long: sandboxNewLong}
	granted := addFlags(c, policyFlags())
	var text []byte
	a.asking(c, remoteFlags(leaseFlags()...), question{args: takesNone,
		read: func() (problems []plan.Problem) {
			text, problems = a.policyText(granted)
			return problems
		},
		do: func(ctx context.Context, c *client.Client, f asked, _ []string) error {
			s, err := c.NewSandbox(ctx, client.SandboxRequest{Policy: string(text), Idle: f.text["idle"], Lifetime: f.text["lifetime"]})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, s.ID)
			return nil
		}})
	sandboxFlag(c, "time", sandboxTime())
	sandboxFlag(c, "idle", sandboxIdle)
	return c
}

func leaseFlags() []flagSpec {
	return []flagSpec{{name: "idle", kind: kindDuration}, {name: "lifetime", kind: kindDuration}}
}

// policyText is what policyFlags grant, as the server reads it.
func (a *app) policyText(f flags) ([]byte, []plan.Problem) {
	r := &reader{app: a, flags: f}
	r.readPolicy()
	r.validate()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	text, err := policy.Encode(r.request.policy)
	if err != nil {
		return nil, []plan.Problem{unwritablePolicy(err)}
	}
	return text, nil
}

func (a *app) sandboxRunCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "stdin", kind: kindSwitch, alone: "true"}, flagSpec{name: "workdir", kind: "PATH"})
	return a.remote(&cobra.Command{Use: "run [flags] sandbox [--] program [argument ...]", Short: sandboxRunShort, Long: sandboxRunLong}, specs, takesSome,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			q := client.RunRequest{Args: args[1:], Dir: f.text["workdir"], OpenInput: f.on["stdin"]}
			switch {
			case len(q.Args) > 0 && q.Args[0] == "--":
				q.Args = q.Args[1:]
			case len(q.Args) > 0 && strings.HasPrefix(q.Args[0], "-"):
				return &plan.Refusal{Problems: []plan.Problem{flagBehindSandbox(args[0], q.Args[0])}}
			}
			if len(q.Args) == 0 {
				return &plan.Refusal{Problems: []plan.Problem{{What: "cannot run: no program", Remedy: "isolate sandbox run " + shellWord(args[0]) + " -- PROGRAM"}}}
			}
			return a.runIn(ctx, c, args[0], q)
		})
}

// runIn runs a program in a kept sandbox, on our streams. The exit code is the
// program's.
func (a *app) runIn(ctx context.Context, c *client.Client, sandbox string, q client.RunRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout, stderr := newStream(a.stdout, cancel), newStream(a.stderr, nil)
	var said []plan.Problem
	var ended string
	err := c.RunIn(ctx, sandbox, q, func(e client.Event) error {
		switch e.Type {
		case client.EventStarted:
			if q.OpenInput {
				// it may read for as long as its source has nothing
				go func() { _ = c.WriteStdin(ctx, e.ID, a.stdin) }()
			}
		case client.EventStdout:
			_, _ = stdout.Write(e.Data) // end tells
		case client.EventStderr:
			_, _ = stderr.Write(e.Data)
		case client.EventResult:
			a.code = e.CommandExitCode
			ended = endingIn(sandbox, q.Args[0], e.Result)
		case client.EventError:
			a.code = e.CommandExitCode
			for _, p := range e.Problems {
				said = append(said, plan.Problem(p))
			}
		}
		return nil
	})
	if errors.Is(stdout.err, syscall.EPIPE) {
		a.code = exitSignal + int(syscall.SIGPIPE)
		return nil
	}
	a.print(said...)
	for _, e := range []error{stdout.end("standard output"), stderr.end("standard error")} {
		if err == nil {
			err = e
		}
	}
	if ended != "" {
		fmt.Fprintln(a.stderr, "isolate: "+ended)
	}
	return err
}

func (a *app) sandboxPutCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "put [flags] sandbox file", Short: sandboxPutShort, Long: sandboxPutLong, Annotations: map[string]string{flagsAnywhere: ""}}, remoteFlags(flagSpec{name: "mode", kind: "OCTAL"}), takesSome,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			if len(args) != 2 {
				return wantsFile("put", "<FILE")
			}
			mode := uint64(0o644)
			if text := f.text["mode"]; text != "" {
				var err error
				if mode, err = strconv.ParseUint(text, 8, 9); err != nil {
					return &plan.Refusal{Problems: []plan.Problem{{What: fmt.Sprintf("cannot use --mode %q", text), Rule: "it is no permission bits in octal", Remedy: "write 644, or 755 for a program"}}}
				}
			}
			_, err := c.PutFile(ctx, args[0], args[1], uint32(mode), a.stdin)
			return err
		})
}

func (a *app) sandboxGetCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "get [flags] sandbox file", Short: sandboxGetShort, Long: sandboxGetLong}, remoteFlags(), takesSome,
		func(ctx context.Context, c *client.Client, _ asked, args []string) error {
			if len(args) != 2 {
				return wantsFile("get", ">FILE")
			}
			from, err := c.GetFile(ctx, args[0], args[1], 0)
			if err != nil {
				return err
			}
			defer from.Close()
			stdout := newStream(a.stdout, nil)
			_, err = io.Copy(struct{ io.Writer }{stdout}, from)
			if ended := stdout.end("standard output"); ended != nil || stdout.err != nil {
				return ended
			}
			return err
		})
}

func (a *app) sandboxLsCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "ls [flags] sandbox [directory]", Short: sandboxLsShort, Long: sandboxLsLong}, remoteFlags(), takesSome,
		func(ctx context.Context, c *client.Client, _ asked, args []string) error {
			dir := ""
			switch len(args) {
			case 1:
			case 2:
				dir = args[1]
			default:
				return &plan.Refusal{Problems: []plan.Problem{extraArgument("isolate sandbox ls", args[2])}}
			}
			list, err := c.ListFiles(ctx, args[0], dir)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, e := range list.Files {
				rows = append(rows, []string{e.Mode, strconv.FormatInt(e.Size, 10), e.Kind, plaintext.Visible(e.Name)})
			}
			if list.More {
				defer fmt.Fprintln(a.stderr, "isolate: there is more than is listed")
			}
			return a.table(rows)
		})
}

func (a *app) sandboxRmCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "rm [flags] sandbox ...", Short: sandboxRmShort, Long: sandboxRmLong}, remoteFlags(), takesSome,
		func(ctx context.Context, c *client.Client, _ asked, args []string) error {
			return each(args, func(id string) error { return c.DeleteSandbox(ctx, id) })
		})
}
