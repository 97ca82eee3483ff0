package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
)

// doctorCommand says what this machine can enforce.
func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "doctor [--json | --print-setup]", Short: doctorShort, Long: doctorLong, DisableFlagsInUseLine: true}
	asJSON := cmd.Flags().Bool("json", false, doctorJSON)
	setup := cmd.Flags().Bool("print-setup", false, doctorSetup)
	cmd.MarkFlagsMutuallyExclusive("json", "print-setup")
	return a.plain(cmd, func() error {
		r := isolate.Doctor(cmd.Context())
		a.code = r.Verdict().ExitCode()
		if *asJSON {
			e := json.NewEncoder(a.stdout)
			e.SetIndent("", "  ")
			return e.Encode(r)
		}
		text := r.Text()
		if *setup {
			text, a.code = r.Setup(), 0
		}
		_, err := io.WriteString(a.stdout, text)
		return err
	})
}
