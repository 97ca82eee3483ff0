package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/plan"
)

// completionCommand prints the completion script of a shell.
func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "completion bash|zsh|fish",
		Short:                 completionShort,
		Long:                  completionLong,
		ValidArgs:             shells,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			problems := append([]plan.Problem{}, a.mistakes...)
			if len(args) != 1 {
				problems = append(problems, noShell(shells))
			}
			if len(problems) > 0 {
				a.code = a.refuse(problems...)
				return nil
			}
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				err = root.GenZshCompletion(a.stdout)
			case "fish":
				err = root.GenFishCompletion(a.stdout, true)
			default:
				a.code = a.refuse(unknownShell(args[0], shells))
			}
			if err != nil {
				return fmt.Errorf("cannot write the script: %w", err)
			}
			return nil
		},
	}
}
