package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
)

// poolCommand holds the commands about what is kept ready.
func (a *app) poolCommand() *cobra.Command {
	c := &cobra.Command{Use: "pool", Short: poolShort, Long: poolLong, DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.code = a.refuse(a.lost(cmd, args)...)
		return nil
	}
	c.AddCommand(a.poolStatusCommand())
	return c
}

func (a *app) poolStatusCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "json", kind: kindSwitch, alone: "true"})
	return a.remote(&cobra.Command{Use: "status [flags]", Short: poolStatusShort, Long: poolStatusLong}, specs, takesNone,
		func(ctx context.Context, c *client.Client, f asked, _ []string) error {
			st, err := c.Stats(ctx)
			if err != nil {
				return err
			}
			if f.on["json"] {
				return a.asJSON(st)
			}
			return a.table(poolRows(st, time.Now()))
		})
}

// poolRows are the numbers of a server as rows.
func poolRows(st client.Stats, now time.Time) [][]string {
	p := st.Pool
	rows := [][]string{
		{"up", age(now.Sub(st.Began))},
		{"running", strconv.Itoa(st.Running)},
		{"kept sandboxes", strconv.Itoa(st.Kept)},
		{"sandboxes in use", fmt.Sprintf("%d of %d", p.Sandboxes, p.MaxSandboxes)},
		{"waiting", fmt.Sprintf("%d of %d, %d turned away", p.Waiting, p.MaxWaiting, p.Refused)},
		{"cells", fmt.Sprintf("%d of %d", p.Cells, p.MaxCells)},
		{"made ahead", strconv.Itoa(p.Spares)},
		{"taken", fmt.Sprintf("%d made ahead, %d made on request", p.Ahead, p.Made)},
		{"connections", strconv.Itoa(st.Connections)},
		{"blocked calls", strconv.FormatUint(p.Blocked, 10)},
		{"tear-down errors", strconv.FormatUint(p.TearDownErrors, 10)},
	}
	var ended []string
	for _, reason := range slices.Sorted(maps.Keys(p.Runs)) {
		ended = append(ended, fmt.Sprintf("%s %d", reason, p.Runs[reason]))
	}
	return append(rows, []string{"ended", strings.Join(ended, ", ")})
}
