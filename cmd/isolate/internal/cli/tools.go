package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/cmd/isolate/internal/safeterm"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/plan"
)

// toolsCommand looks at tools without running a program.
func (a *app) toolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "tools",
		Short:                 toolsShort,
		Long:                  toolsLong,
		Args:                  cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.code = a.refuse(a.lost(cmd, args)...)
		return nil
	}
	cmd.AddCommand(
		a.toolsSub("ls", toolsLsShort, a.listTools),
		a.toolsSub("check", toolsCheckShort, a.checkTools),
		a.toolsSub("stub", toolsStubShort, a.writeStubs),
	)
	return cmd
}

// toolsSub is one of the commands of tools: the tools are opened, and do gets
// them and the arguments.
func (a *app) toolsSub(name, short string, do func(opened, *reader, []string) []plan.Problem) *cobra.Command {
	use := name + " [flags]"
	if name == "stub" {
		use += " directory"
	}
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   use,
		Short:                 short,
		Long:                  short + ".\n\n" + toolsSubLong,
		Args:                  cobra.ArbitraryArgs,
		Annotations:           map[string]string{flagsAnywhere: ""},
	}
	specs := sourceFlags()
	if name == "ls" {
		specs = append(specs, listFlags()...)
	}
	f := addFlags(cmd, specs)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &reader{app: a, flags: f, problems: a.mistakes}
		s := r.readTools()
		switch {
		case !s.given && len(r.problems) == 0 && name != "stub" && len(args) > 0:
			r.add(toolsWithoutFlag(cmd.CommandPath(), args[0]))
			args = nil
		case !s.given && len(r.problems) == 0:
			r.add(noTools())
		}
		switch {
		case name == "stub" && len(args) != 1:
			r.add(noStubDir())
		case name != "stub" && len(args) > 0:
			r.add(extraArgument(cmd.CommandPath(), args[0]))
		}
		if len(r.problems) > 0 {
			a.code = a.refuse(r.problems...)
			return nil
		}
		i := a.watchSignals(cmd.Context())
		defer i.stop()
		o, problems := a.openTools(i.ctx, s)
		if len(problems) == 0 {
			problems = do(o, r, args)
		}
		if err := o.close(); err != nil {
			problems = append(problems, problemsOf(err)...)
		}
		if name == "check" {
			for i, p := range problems {
				problems[i].Remedy = strings.TrimSuffix(p.Remedy, checkHint)
			}
		}
		if len(problems) > 0 {
			a.code = a.refuse(problems...)
		}
		return nil
	}
	return cmd
}

// listed is one tool in the output of tools ls --json.
type listed struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier"`
	Python     string `json:"python"`
	TypeScript string `json:"typescript"`
	// what is in the types that those name, one a line
	PythonTypes     []string `json:"python_types,omitempty"`
	TypeScriptTypes []string `json:"typescript_types,omitempty"`

	Description string `json:"description,omitempty"`
	Source      string `json:"source,omitempty"`
	ReadOnly    bool   `json:"read_only"`
	Approve     string `json:"approve"`
	Input       any    `json:"input,omitempty"`
	Output      any    `json:"output,omitempty"`
}

func (a *app) listTools(o opened, r *reader, _ []string) []plan.Problem {
	lines, err := signaturesOf(o.list)
	if err != nil {
		return wrongTool(err)
	}
	called := map[string]stub.Signature{}
	for _, l := range lines {
		called[l.Name] = l
	}
	all := make([]listed, 0, len(o.list))
	for _, t := range o.list {
		l := listed{Name: t.Name, Description: t.Description, Source: t.Source, ReadOnly: t.Effect == bridge.ReadOnly}
		c := called[t.Name]
		l.Identifier, l.Python, l.TypeScript = c.Identifier, c.Python, c.TypeScript
		l.PythonTypes, l.TypeScriptTypes = c.PythonTypes, c.TypeScriptTypes
		for name, when := range approvals {
			if when == t.Approve {
				l.Approve = name
			}
		}
		if t.Input != nil {
			l.Input = t.Input
		}
		if t.Output != nil {
			l.Output = t.Output
		}
		all = append(all, l)
	}
	if r.flags.on("json", &r.problems) {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // a signature's arrow is for people, too
		return problemsOf(e.Encode(all))
	}
	return problemsOf(errors.Join(printTools(a.stdout, all), printCalls(a.stdout, lines)))
}

// printTools prints one line a tool, on a terminal no longer than its lines are.
// What servers say of themselves is not trusted.
func printTools(to io.Writer, all []listed) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tEFFECT\tAPPROVE\tSOURCE\tDESCRIPTION")
	for _, t := range all {
		effect := "may write"
		if t.ReadOnly {
			effect = "read only"
		}
		fmt.Fprintln(w, strings.Join([]string{t.Name, effect, t.Approve, oneLine(t.Source), oneLine(t.Description)}, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text, width := table.String(), columns(to)
	if width > 0 {
		text = cutLines(text, width)
	}
	_, err := io.WriteString(safeterm.NewText(to), text)
	return err
}

// cutLines cuts what a terminal of so many columns would show in more than one
// line. A sequence for the terminal is cut like text: it does not reach it.
func cutLines(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > width {
			line = string(runes[:width-1]) + "…\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// printCalls prints how a Python program calls the tools, in a form that can be
// given to a model as it is.
func printCalls(to io.Writer, all []stub.Signature) error {
	var b strings.Builder
	b.WriteString("\nIn a program, here in Python, by: from isolate_tools import *\n")
	for _, s := range all {
		b.WriteString("  " + s.Python)
		if s.About != "" {
			b.WriteString("  # " + s.About)
		}
		b.WriteByte('\n')
		for _, line := range s.PythonTypes {
			b.WriteString("    " + line + "\n")
		}
	}
	_, err := io.WriteString(safeterm.NewText(to), b.String())
	return err
}

// signaturesOf are how a program calls the tools.
func signaturesOf(tools []isolate.Tool) ([]stub.Signature, error) {
	set, err := bridge.NewSet(tools...)
	if err != nil {
		return nil, err
	}
	return stub.Signatures(set)
}

// inLanguage are signatures in a language of package program, each with the
// types that it names on lines of their own.
func inLanguage(all []stub.Signature, language string) []string {
	texts := make([]string, len(all))
	for i, s := range all {
		line, types := s.Python, s.PythonTypes
		switch language {
		case "js", program.TypeScript:
			line, types = s.TypeScript, s.TypeScriptTypes
		case "sh", "bash":
			line, types = "tool call "+s.Name+" JSON: "+s.TypeScript, s.TypeScriptTypes
		}
		texts[i] = strings.Join(append([]string{line}, types...), "\n")
	}
	return texts
}

// oneLine is the first line of a text, for a cell of a table.
func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return plaintext.Visible(strings.Join(strings.Fields(line), " "))
}

func (a *app) checkTools(o opened, _ *reader, _ []string) []plan.Problem {
	files, err := stubs(o.list)
	if err != nil {
		return wrongTool(err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s, %s generated, nothing wrong\n", count(len(o.list), "tool"), count(len(files), "module file"))
	return problemsOf(err)
}

func stubs(list []isolate.Tool) ([]stub.File, error) {
	set, err := bridge.NewSet(list...)
	if err != nil {
		return nil, err
	}
	return stub.Generate(set)
}

// writeStubs writes the modules into a new or empty directory.
func (a *app) writeStubs(o opened, _ *reader, args []string) []plan.Problem {
	dir, err := a.abs(args[0])
	if err != nil {
		return problemsOf(err)
	}
	files, err := stubs(o.list)
	if err != nil {
		return wrongTool(err)
	}
	if err := emptyDir(dir); err != nil {
		return []plan.Problem{wrongStubDir(args[0], err)}
	}
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, f.Content, os.FileMode(f.Mode))
		}
		if err != nil {
			return []plan.Problem{wrongStubDir(args[0], err)}
		}
	}
	_, err = fmt.Fprintf(a.stdout, "%s for %s written to %s: for Python add %s to PYTHONPATH, for Node %s to NODE_PATH, for a shell %s to PATH\n",
		count(len(files), "file"), count(len(o.list), "tool"), args[0],
		filepath.Join(args[0], stub.PythonPath), filepath.Join(args[0], stub.NodePath), filepath.Join(args[0], stub.BinPath))
	return problemsOf(err)
}

// emptyDir makes a directory, or says that it is there and empty.
func emptyDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = errNotEmpty
	}
	return err
}
