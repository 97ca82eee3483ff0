package cli

import "github.com/spf13/cobra"

// helpCommand prints the help text of a command.
func (a *app) helpCommand() *cobra.Command {
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "help [command]",
		Short:                 helpShort,
		Args:                  cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		topic := cmd.Root()
		for _, name := range args {
			if topic != nil {
				topic = child(topic, name)
			}
		}
		if topic == nil || len(a.mistakes) > 0 {
			a.code = a.refuse(a.lost(cmd.Root(), args)...)
			return nil
		}
		topic.InitDefaultHelpFlag()
		return topic.Help()
	}
	return cmd
}
