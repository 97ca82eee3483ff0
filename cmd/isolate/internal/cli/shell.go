package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// shellTime is the time limit of a shell without --time and without a policy
// file that sets one. The default of a program, a minute, is no time to work in.
const shellTime = time.Hour

// shellProgram starts the better of the two shells there may be inside.
var shellProgram = []string{"sh", "-c", `command -v bash >/dev/null 2>&1 && exec bash; exec sh`}

// shellCommand is exec --tty with a shell.
func (a *app) shellCommand() *cobra.Command {
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "shell [flags]",
		Short:                 shellShort,
		Long:                  shellLong,
		Args:                  cobra.ArbitraryArgs,
	}
	f := addFlags(cmd, sandboxFlags())
	cmd.Flags().Lookup("time").Usage = timeHelp(shellTime)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f["tty"] = &raw{texts: []string{"true"}}
		r, problems := a.readRequest(f, shellProgram)
		if len(args) > 0 {
			problems = append(problems, shellWithProgram(args[0]))
		}
		if r.policy.Wall == 0 {
			r.policy.Wall = shellTime
		}
		a.do(cmd.Context(), r, problems)
		return nil
	}
	return cmd
}
