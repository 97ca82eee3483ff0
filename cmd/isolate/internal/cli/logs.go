package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
)

// logsCommand shows the end of a run's output.
func (a *app) logsCommand() *cobra.Command {
	specs := remoteFlags(flagSpec{name: "follow", kind: kindSwitch, alone: "true"})
	return a.remote(&cobra.Command{Use: "logs [flags] id", Short: logsShort, Long: logsLong}, specs, takesOne,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			stdout, stderr := newStream(a.stdout, nil), newStream(a.stderr, nil)
			show := c.Logs
			if f.on["follow"] {
				show = c.FollowLogs
			}
			var said []plan.Problem
			err := show(ctx, args[0], func(e client.Event) error {
				var err error
				switch e.Type {
				case client.EventStdout:
					_, err = stdout.Write(e.Data)
				case client.EventStderr:
					_, err = stderr.Write(e.Data)
				case client.EventDropped:
					_, err = fmt.Fprintf(a.stderr, "isolate: %s\n", logLost(e.Bytes))
				case client.EventError:
					for _, p := range e.Problems {
						said = append(said, plan.Problem(p))
					}
				}
				return err
			})
			a.print(said...)
			for _, e := range []error{stdout.end("standard output"), stderr.end("standard error")} {
				if err == nil {
					err = e
				}
			}
			return err
		})
}
