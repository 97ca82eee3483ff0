package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/cmd/isolate/internal/prove"
)

// proveCommand makes the demonstration of package prove.
func (a *app) proveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "prove [--json]", Short: proveShort, Long: proveLong, DisableFlagsInUseLine: true}
	asJSON := cmd.Flags().Bool("json", false, proveJSON)
	cmd.AddCommand(a.attemptCommand())
	return a.plain(cmd, func() error {
		i := a.watchSignals(cmd.Context())
		defer i.stop()
		r, err := a.prove(i.ctx)
		if err != nil {
			a.code = a.refuse(problemsOf(err)...)
			return nil
		}
		if !r.Held {
			a.code = exitLeak
		}
		if *asJSON {
			return a.printJSON(r)
		}
		_, err = io.WriteString(a.stdout, proveText(r))
		return err
	})
}

// exitLeak is the exit code of a demonstration that failed.
const exitLeak = 1

func (a *app) prove(ctx context.Context) (prove.Report, error) {
	exe, err := os.Executable()
	if err != nil {
		return prove.Report{}, err
	}
	rt, err := a.open(ctx, isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		return prove.Report{}, err
	}
	r, err := prove.Run(ctx, prove.Options{Runtime: rt, Executable: exe, Args: []string{"prove", "attempt"}})
	if errClose := rt.Close(); err == nil && errClose != nil {
		r.Held = false
		r.Problems = append(r.Problems, errClose.Error())
	}
	return r, err
}

// attemptCommand is the program of the demonstration. It is not offered to
// anybody: without a list on standard input it does nothing.
func (a *app) attemptCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "attempt", Short: attemptShort, Hidden: true, DisableFlagsInUseLine: true}
	return a.plain(cmd, func() error {
		if err := prove.Attempt(a.stdin, a.stdout); err != nil {
			a.code = a.refuse(problemsOf(err)...)
		}
		return nil
	})
}
