package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
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
			a.say(s.ID + "\n")
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

func (a *app) sandboxPutCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "mode", kind: "OCTAL"}, flagSpec{name: "json", kind: kindSwitch, alone: "true"})
	return a.remote(&cobra.Command{Use: "put [flags] sandbox name [source]", Short: sandboxPutShort, Long: sandboxPutLong, Annotations: map[string]string{flagsAnywhere: ""}}, specs, takesSome,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			if len(args) == 3 && f.text["mode"] == "" {
				return a.putTree(ctx, c, f, args)
			}
			if len(args) != 2 || f.on["json"] {
				return wantsFile("put", args)
			}
			mode := uint64(0o644)
			if text := f.text["mode"]; text != "" {
				var err error
				if mode, err = strconv.ParseUint(text, 8, 9); err != nil {
					return &plan.Refusal{Problems: []plan.Problem{{What: fmt.Sprintf("cannot use --mode %q", text), Rule: "it is no permission bits in octal", Remedy: "write 644, or 755 for a program"}}}
				}
			}
			if _, is := asTerminal(a.stdin); is {
				return putOfTerminal(args[0], args[1])
			}
			_, err := c.PutFile(ctx, args[0], args[1], uint32(mode), a.stdin)
			return err
		})
}

// putTree copies a file or directory of the host to a name in the sandbox.
func (a *app) putTree(ctx context.Context, c *client.Client, f asked, args []string) error {
	source, err := a.abs(args[2])
	if err != nil {
		return err
	}
	in := client.Input{Source: source, Target: args[1]}
	if in.Target == "." {
		in.Target = ""
	}
	m, err := c.CopyIn(ctx, args[0], []client.Input{in})
	if err != nil {
		return err
	}
	return a.copied(f, m, "in")
}

// copied prints the manifest of a copy if that is wanted, and else what in it
// one has to know.
func (a *app) copied(f asked, text json.RawMessage, way string) error {
	if f.on["json"] {
		return a.asJSON(text)
	}
	var m isolate.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("cannot read what was copied: %w", err)
	}
	if skipped(&m) > 0 {
		a.notice(notCopied(m.Skipped, way, "--json"))
	}
	if text := actedOn(&m, "--json"); text != "" {
		a.notice(text)
	}
	return nil
}

func (a *app) sandboxGetCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "json", kind: kindSwitch, alone: "true"})
	return a.remote(&cobra.Command{Use: "get [flags] sandbox name [target]", Short: sandboxGetShort, Long: sandboxGetLong, Annotations: map[string]string{flagsAnywhere: ""}}, specs, takesSome,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			if len(args) == 3 {
				dir, err := (&reader{app: a}).outOf(args[2])
				if err != nil {
					return err
				}
				m, err := c.CopyOut(ctx, args[0], args[1], dir)
				if err != nil {
					return err
				}
				return a.copied(f, m, "out")
			}
			if len(args) != 2 || f.on["json"] {
				return wantsFile("get", args)
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
