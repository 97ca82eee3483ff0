package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// programFile is the file of the run command.
type programFile struct {
	// typed is how the user named it.
	typed string
	start program.Start
	// inside is its path in the sandbox.
	inside string
	// arguments are the program's own.
	arguments []string
	// printRepair is --repair-prompt.
	printRepair bool
	// memory holds a program from standard input; nil is that there is none.
	memory *os.File
}

// maxProgram bounds a program on standard input, in bytes.
const maxProgram = 16 << 20

// runCommand runs a program file.
func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		DisableFlagsInUseLine: true,
		Use:                   "run [flags] program [argument ...] [-- argument ...]",
		Short:                 runShort,
		Long:                  runLong,
		Example:               runExample,
		Args:                  cobra.ArbitraryArgs,
		Annotations:           map[string]string{flagsAnywhere: ""},
	}
	f := addFlags(cmd, append(programFlags(), sandboxFlags()...))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &reader{app: a, flags: f, problems: a.mistakes}
		if len(args) > 0 {
			r.request.cmd.File = args[0] // is not written over, whatever else is wrong
		}
		tools := r.readTools()
		if a.toolsElsewhere(cmd.Context(), r, &tools) {
			return nil
		}
		r.readFile(args)
		r.useTools(tools)
		if r.request.file.memory != nil {
			defer r.request.file.memory.Close()
		}
		a.do(cmd.Context(), r.request, r.problems)
		return nil
	}
	return cmd
}

// readFile reads the program file and everything else of the run command.
func (r *reader) readFile(args []string) {
	p := &programFile{printRepair: r.flags.on("repair-prompt", &r.problems)}
	r.request.file = p
	r.request.cmd.Answer = isolate.FindAnswer
	var lang string
	read(r, "lang", &lang, func(text string) (string, error) {
		known := program.Language(text)
		if known == "" {
			r.add(unknownLanguage(text))
		}
		return known, nil
	})
	if len(args) == 0 || args[0] == "" {
		if len(args) > 0 || len(r.flags.many("explain")) == 0 {
			r.add(noFile())
		}
		r.readAll(nil)
		return
	}
	p.typed, p.arguments = args[0], args[1:]
	r.request.cmd.File = p.typed
	if p.typed == "-" {
		r.fromInput(p, lang)
	} else {
		r.fromFile(p, lang)
	}
	if p.inside == "" {
		r.readAll(nil) // why is told already
		return
	}
	r.readAll(slices.Concat(p.start.Command, []string{p.inside}, p.arguments))
}

// useTools gives the program tools.
func (r *reader) useTools(tools toolset) {
	r.request.tools = tools
	if r.request.tools.given {
		r.request.policy.Bridge = policy.FileBridge // for --explain; a run does so itself
	}
}

// fromFile looks at a program file of the host.
func (r *reader) fromFile(p *programFile, lang string) {
	file, err := r.abs(p.typed)
	if err != nil {
		r.add(unreadable("program", p.typed, err))
		return
	}
	head, st, err := readHead(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		arguments := shellWords(p.arguments)
		if len(r.problems) > 0 {
			arguments = "…" // some may have been taken for flags
		}
		r.add(noSuchFile(p.typed, arguments))
		return
	case err != nil:
		r.add(unreadable("program", p.typed, err))
		return
	case st.IsDir():
		r.add(programIsDir(p.typed))
		return
	case !st.Mode().IsRegular():
		r.add(programIsSpecial(p.typed))
		return
	case r.flags.on("reply", &r.problems):
		f, err := os.Open(file)
		if err != nil {
			r.add(unreadable("program", p.typed, err))
			return
		}
		defer f.Close()
		r.fromText(p, f, lang)
		return
	}
	if p.start, err = program.Choose(filepath.Base(file), lang, head, st.Mode()); err != nil {
		r.add(noInterpreter(p.typed, err))
	}
	inside, copied := r.copiedBy(file)
	if !copied {
		inside = filepath.Base(file)
		r.request.cmd.In = append(r.request.cmd.In, isolate.Input{Source: file, Target: inside})
	}
	p.inside = path.Join(workspaceDir, inside)
}

// readHead reads the beginning of a file. What is no file is not opened: that
// alone can do something.
func readHead(file string) ([]byte, os.FileInfo, error) {
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() {
		return nil, st, err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, st, err
	}
	defer f.Close()
	head := make([]byte, program.HeadSize)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], st, err
}

// copiedBy says where --in puts the file, if one does. Mistakes in --in are
// told when they are read for themselves.
func (r *reader) copiedBy(file string) (inside string, copied bool) {
	for _, text := range r.flags.many("in") {
		in, err := r.readInput(text)
		if err != nil {
			continue
		}
		if in.Source == file {
			if in.Target == "" {
				in.Target = filepath.Base(file)
			}
			return in.Target, true
		}
		if rest, beneath := strings.CutPrefix(file, strings.TrimSuffix(in.Source, "/")+"/"); beneath {
			return path.Join(in.Target, rest), true
		}
	}
	return "", false
}

// fromInput reads a program from standard input.
func (r *reader) fromInput(p *programFile, lang string) {
	if r.flags.on("stdin", &r.problems) {
		r.add(programAndStdin())
	}
	if len(r.problems) > 0 {
		return // nothing will run, so nothing is waited for
	}
	r.fromText(p, r.stdin, lang)
}

// fromText reads a program into memory, where it is copied in from.
func (r *reader) fromText(p *programFile, from io.Reader, lang string) {
	text, err := io.ReadAll(io.LimitReader(from, maxProgram+1))
	switch {
	case err != nil:
		r.add(unreadable("program", p.typed, err))
		return
	case len(text) > maxProgram:
		r.add(programTooLarge(maxProgram))
		return
	}
	wrong := noInterpreter
	if r.flags.on("reply", &r.problems) {
		text, lang = program.Reply(text, lang)
		wrong = noInterpreterOfReply
	}
	if p.start, err = program.Choose("program", lang, text, 0o755); err != nil {
		r.add(wrong(p.typed, err))
		return
	}
	if p.memory, err = inMemory(text); err != nil {
		r.add(unreadable("program", p.typed, err))
		return
	}
	suffix, _ := program.Suffix(p.start.Language)
	name := "program" + suffix
	p.inside = path.Join(workspaceDir, name)
	source := "/proc/self/fd/" + strconv.Itoa(int(p.memory.Fd()))
	r.request.cmd.In = append(r.request.cmd.In, isolate.Input{Source: source, Target: name})
}

// inMemory is a file that is on no disk.
func inMemory(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("program", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "program")
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// prepare does what only a sandbox can: it asks the interpreter inside what it
// can do.
func (a *app) prepare(ctx context.Context, rt runtime, r *request) []plan.Problem {
	if r.file == nil || r.file.start.Language != program.TypeScript {
		return nil
	}
	res, err := rt.Run(ctx, r.policy, isolate.Cmd{Args: []string{"node", "-p", canStripTypes}})
	if err != nil {
		return problemsOf(err)
	}
	switch strings.TrimSpace(string(res.Stdout.Kept)) {
	case "yes":
		return nil
	case "flag":
		args := []string{"node", "--experimental-strip-types", "--disable-warning=ExperimentalWarning"}
		r.cmd.Args = append(args, r.cmd.Args[1:]...)
		return nil
	}
	return []plan.Problem{noTypeScript(r.file.typed, res.NotStarted != "")}
}

// canStripTypes is JavaScript that says whether node runs TypeScript: from
// 22.18 on by itself, from 22.6 on if it is asked to.
const canStripTypes = `process.features.typescript ? "yes" : process.allowedNodeEnvironmentFlags.has("--experimental-strip-types") ? "flag" : "no"`

// wantsTools says whether a program's last words are that the modules for tools
// are not there: those of Python, Node and a shell.
func wantsTools(stderr []byte) bool {
	for _, words := range []string{"No module named 'isolate_tools'", "Cannot find package 'isolate-tools'", "Cannot find module 'isolate-tools'", "tool: not found", "tool: command not found"} {
		if bytes.Contains(stderr, []byte(words)) {
			return true
		}
	}
	return false
}

// repair is what a model should know of a run; empty if its program did not
// fail.
func repair(res isolate.Result, r request, tools []stub.Signature, stderr []byte) string {
	if res.Reason == isolate.ReasonCancelled || res.Reason == isolate.ReasonSandboxError || res.CommandExitCode() == 0 {
		return ""
	}
	return program.RepairPrompt(program.Failure{How: howFailed(res, r), Calls: callsMade(res.Calls), Tools: inLanguage(tools, r.file.start.Language), Stderr: stderr})
}
