package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
)

// killCommand ends runs, or what runs in kept sandboxes.
func (a *app) killCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "kill [flags] id ...", Short: killShort, Long: killLong}, remoteFlags(), takesSome,
		func(ctx context.Context, c *client.Client, _ asked, args []string) error {
			return each(args, func(id string) error {
				if isSandbox(id) {
					return c.KillSandbox(ctx, id)
				}
				return c.KillRun(ctx, id)
			})
		})
}

// rmCommand removes kept sandboxes, and forgets runs that have ended.
func (a *app) rmCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "rm [flags] id ...", Short: rmShort, Long: rmLong}, remoteFlags(), takesSome,
		func(ctx context.Context, c *client.Client, _ asked, args []string) error {
			return each(args, func(id string) error {
				if isSandbox(id) {
					return c.DeleteSandbox(ctx, id)
				}
				return c.ForgetRun(ctx, id)
			})
		})
}

// isSandbox tells the names of kept sandboxes from those of runs.
func isSandbox(id string) bool { return strings.HasPrefix(id, "s") }

// each does something with every name, and goes on after a mistake.
func each(ids []string, do func(string) error) error {
	var errs []error
	for _, id := range ids {
		if err := do(id); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
