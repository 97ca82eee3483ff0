package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
)

// psCommand lists what a server runs.
func (a *app) psCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "all", kind: kindSwitch, alone: "true"}, flagSpec{name: "json", kind: kindSwitch, alone: "true"})
	return a.remote(&cobra.Command{Use: "ps [flags]", Short: psShort, Long: psLong}, specs, takesNone,
		func(ctx context.Context, c *client.Client, f asked, _ []string) error {
			list, err := c.Runs(ctx)
			if err != nil {
				return err
			}
			kept, err := c.Sandboxes(ctx)
			if err != nil {
				return err
			}
			if !f.on["all"] {
				list = slices.DeleteFunc(list, func(r client.Run) bool { return r.State != client.StateRunning })
			}
			if f.on["json"] {
				return a.asJSON(map[string]any{"runs": list, "sandboxes": kept})
			}
			rows := runRows(list, time.Now())
			for _, k := range kept {
				rows = append(rows, []string{k.ID, "sandbox", "kept", age(time.Since(k.Began)), "-", "-", "until " + k.Expires.Local().Format(time.TimeOnly)})
			}
			return a.table(rows)
		})
}
