package cli

import "github.com/spf13/cobra"

// execCommand runs one program in a sandbox of its own.
func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "exec [flags] -- program [argument ...]",
		Short:                 execShort,
		Long:                  execLong,
		Example:               execExample,
		Args:                  cobra.ArbitraryArgs,
	}
	f := addFlags(cmd, append(sandboxFlags(), streamFlags()...))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, problems := a.readRequest(f, args)
		a.do(cmd.Context(), r, problems)
		return nil
	}
	return cmd
}
