package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
)

// topEvery is how often top looks again.
const topEvery = time.Second

// topCommand shows what runs, again and again where there is a terminal.
func (a *app) topCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "top [flags]", Short: topShort, Long: topLong}, remoteFlags(), takesNone,
		func(ctx context.Context, c *client.Client, _ asked, _ []string) error {
			_, again := asTerminal(a.stdout)
			for {
				if err := a.top(ctx, c, again); err != nil || !again {
					return err
				}
				select {
				case <-time.After(topEvery):
				case <-ctx.Done():
					return nil
				}
			}
		})
}

func (a *app) top(ctx context.Context, c *client.Client, clear bool) error {
	st, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	list, err := c.Runs(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(r client.Run) bool { return r.State != client.StateRunning })
	slices.SortStableFunc(list, func(a, b client.Run) int { return int(b.CPU - a.CPU) })
	if clear {
		fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
	}
	fmt.Fprintf(a.stdout, "%d running, %d waiting, %d of %d sandboxes, %d made ahead\n\n", st.Running, st.Pool.Waiting, st.Pool.Sandboxes, st.Pool.MaxSandboxes, st.Pool.Spares)
	return a.table(runRows(list, time.Now()))
}
