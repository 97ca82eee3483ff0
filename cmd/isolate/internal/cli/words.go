package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// Everything the command says to a person stands in this file and those beside
// it named words_… (what went wrong, and what to do) and in helptext.go (what
// there is). The rules:
//
//   - A problem is one line "error: cannot <verb> <object>: cause", then
//     "hint:" lines that say what to do, as an order. All problems are told.
//   - Lower case, no full stop, no "failed to", no "please", no "invalid".
//   - What the user typed is in quotes, a flag is written as it is typed.
//   - A hint names something that works here and now.
//   - The text of a program, of a file or of an argument is never printed
//     without quoting: it may hold control characters.
//   - Words of packages policy, plan, host and workspace are repeated as they are.

// print writes problems to standard error.
func (a *app) print(problems ...plan.Problem) {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString("error: " + p.What)
		if p.Rule != "" {
			b.WriteString(": " + p.Rule)
		}
		b.WriteByte('\n')
		for hint := range strings.Lines(p.Remedy) {
			b.WriteString("hint: " + strings.TrimSuffix(hint, "\n") + "\n")
		}
	}
	fmt.Fprint(a.stderr, b.String())
}

// refuse prints problems and gives the code that stands for them.
func (a *app) refuse(problems ...plan.Problem) int {
	a.print(problems...)
	return exitRefused
}

// problemsOf takes an error apart into what a person can do something about.
func problemsOf(err error) []plan.Problem {
	if err == nil {
		return nil
	}
	var refusal *plan.Refusal
	if errors.As(err, &refusal) && len(refusal.Problems) > 0 {
		return refusal.Problems
	}
	var list []plan.Problem
	for line := range strings.Lines(err.Error()) {
		list = append(list, plan.Problem{What: strings.TrimSuffix(line, "\n")})
	}
	if last := len(list) - 1; last >= 0 {
		list[last].Remedy = remedy(err)
	}
	return list
}

// remedy is what to do about an error that says nothing about it itself.
func remedy(err error) string {
	switch {
	case errors.Is(err, workspace.ErrLimit):
		return ""
	case errors.Is(err, syscall.ENOSPC):
		return "make room there, or write to another place"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files: ulimit -n 4096"
	case errors.As(err, new(*unusablePlaceError)):
		return "name a directory that you can write to"
	}
	var listening *net.OpError
	if errors.As(err, &listening) && listening.Op == "listen" {
		return "name an address of this machine, and a port above 1023 that nobody uses"
	}
	return noRemedy
}

// noRemedy is said where nothing better is known.
const noRemedy = "\"isolate doctor\" says what is missing on this machine; if that is nothing, it is a fault of isolate"

// Mistakes in commands and flags.

// noCommand is a command line that leads no further than to command, "isolate"
// or one that has commands of its own.
// meant is the command line that does what was meant; empty if nobody knows.
func noCommand(command string, have, args []string, meant string) plan.Problem {
	all := fmt.Sprintf("\"%s --help\" lists the commands", command)
	if len(args) == 0 {
		if len(have) == 1 {
			all = fmt.Sprintf("write \"%s %s\"", command, have[0])
		}
		return plan.Problem{What: "cannot do anything: there is no command", Remedy: all}
	}
	p := plan.Problem{What: fmt.Sprintf("cannot find command %q", args[0])}
	if near, ok := policy.Nearest(args[0], have); ok {
		p.Remedy = fmt.Sprintf("did you mean \"%s %s\"?", command, near)
	} else if near := synonym(args[0], have); near != "" {
		p.Remedy = fmt.Sprintf("did you mean \"%s %s\"?", command, near)
	} else if meant != "" {
		p.Remedy = fmt.Sprintf("to run a program write: %s\n%s", meant, all)
	} else {
		p.Remedy = all
	}
	return p
}

func extraArgument(command, arg string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use argument %q: %q takes none", arg, command),
		Remedy: fmt.Sprintf("\"%s --help\" shows what it takes", command),
	}
}

func unknownFlag(typed, near string) plan.Problem {
	p := plan.Problem{What: fmt.Sprintf("cannot find flag %q", typed)}
	if near != "" {
		p.Remedy = fmt.Sprintf("did you mean \"--%s\"?", near)
	} else {
		p.Remedy = "add --help to see the flags; the program's own flags go behind \"--\""
	}
	return p
}

func foreignFlag(typed string, h habit) plan.Problem {
	return plan.Problem{What: fmt.Sprintf("cannot find flag %q", typed), Remedy: h.hint}
}

func misplacedFlag(typed, command string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag %q here: it is a flag of a command", typed),
		Remedy: fmt.Sprintf("write it behind the command: %s %s …", command, shellWord(typed)),
	}
}

func missingValue(flag, kind string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: it has no value", flag),
		Remedy: fmt.Sprintf("write --%s %s", flag, kind),
	}
}

func givenTwice(flag string, texts []string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: it is given with %d values, %q", flag, len(texts), texts),
		Remedy: "give it once",
	}
}

func notASwitch(flag, text string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: %q is not true or false", flag, text),
		Remedy: fmt.Sprintf("write --%s, or leave it out", flag),
	}
}

func formApart(form string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot explain how to run %q: it looks like the form of the plan", form),
		Remedy: fmt.Sprintf("write --explain=%s", form),
	}
}

func notAForm(text string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --explain: %q is no form of a plan", text),
		Remedy: "write --explain for text, or --explain=json",
	}
}

// Mistakes in values.

var (
	errEmpty     = errors.New("it is empty")
	errNoSource  = errors.New("it has no host path")
	errInputForm = errors.New("it is not PATH or PATH:NAME")
)

// wrongValue is a value that cannot be read.
func wrongValue(flag string, err error) plan.Problem {
	var p policy.Problem
	switch {
	case errors.As(err, &p):
		return plan.Problem{What: "--" + flag + ": " + p.What, Remedy: p.Hint}
	case errors.Is(err, errNoSource), errors.Is(err, errInputForm):
		return plan.Problem{
			What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
			Remedy: "write the host path, or the host path, a colon and the name below /workspace",
		}
	case errors.Is(err, errEmpty):
		return plan.Problem{
			What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
			Remedy: "leave the flag out for the default",
		}
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
		Remedy: "write the whole path from /",
	}
}

// wrongFile is a mistake in a policy file or a file of tools.
func wrongFile(what, file string, p policy.Problem) plan.Problem {
	place := fmt.Sprintf("%s %q", what, file)
	if p.Line > 0 {
		place += fmt.Sprintf(", line %d, column %d", p.Line, p.Column)
	}
	return plan.Problem{What: place + ": " + p.What, Remedy: p.Hint}
}

// wrongSetting is a mistake in the policy that flags and file make together.
// A hint to consent is put as it is done on the command line.
func wrongSetting(p policy.Problem) plan.Problem {
	hint := p.Hint
	for _, w := range policy.Weakenings {
		hint = strings.ReplaceAll(hint, fmt.Sprintf("allow = [%q]", w), fmt.Sprintf("--allow %s", w))
	}
	return plan.Problem{What: p.What, Remedy: hint}
}

func unreadable(what, name string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot read %s %q: %v", what, name, cause(err)),
		Remedy: "name a file that you can read",
	}
}

func variableTwice(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot set variable %q: it is given with two values", name),
		Remedy: "give it once, by --env or by --env-from",
	}
}

func variableWithoutValue(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot set variable %q: it has no value, and nothing is inherited", name),
		Remedy: fmt.Sprintf("write --env %s=VALUE, or --env-from %s to copy yours", name, name),
	}
}

func variableWithValue(text string) plan.Problem {
	name, _, _ := strings.Cut(text, "=") // the value may be a secret
	return plan.Problem{
		What:   fmt.Sprintf("cannot copy variable %q: --env-from takes a name, not a value", name),
		Remedy: "write --env NAME=VALUE to set one",
	}
}

func variableUnset(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot copy variable %q: it is not set here", name),
		Remedy: fmt.Sprintf("set it, or write --env %s=VALUE", name),
	}
}

// Mistakes in what is asked for.

func noProgram() plan.Problem {
	return plan.Problem{
		What:   "cannot run anything: there is no program",
		Remedy: "write it behind the flags: isolate exec -- python3 -c 'print(6*7)'",
	}
}

func emptyProgram() plan.Problem {
	return plan.Problem{
		What:   `cannot run program "": its name is empty`,
		Remedy: "look at the variable that was to hold the name",
	}
}

func shellWithProgram(arg string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use argument %q: \"isolate shell\" starts a shell and takes none", arg),
		Remedy: fmt.Sprintf("to run a program write \"isolate exec --tty -- %s\"", arg),
	}
}

func stdinAndTTY() plan.Problem {
	return plan.Problem{
		What:   "cannot use --stdin and --tty together: a program with a terminal reads from it",
		Remedy: "keep --tty to type, or --stdin to pipe data in",
	}
}

func explainAndFiles(files string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use --explain together with %s: nothing runs, so there is nothing to write", files),
		Remedy: "leave out --explain to run the program, or the others to see the plan",
	}
}

func notATerminal(inputIs bool) plan.Problem {
	which := "input"
	if inputIs {
		which = "output"
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot give the program a terminal: standard %s is none", which),
		Remedy: "start isolate from a terminal; \"isolate exec\" without --tty needs none",
	}
}

func noShell(shells []string) plan.Problem {
	return plan.Problem{
		What:   "cannot write a completion script: it needs the name of one shell",
		Remedy: "write one of " + strings.Join(shells, ", "),
	}
}

func unknownShell(name string, shells []string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write a completion script for %q", name),
		Remedy: "write one of " + strings.Join(shells, ", "),
	}
}

// The server.

func noServer(err *client.UnreachableError) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot ask the server: there is none on %q", err.Socket),
		Remedy: "start one with \"isolate serve\", or name its socket with --socket",
	}
}

func notThroughTheDoor(args []string) plan.Problem {
	return plan.Problem{What: fmt.Sprintf("cannot carry out %q here: the server carries out exec, run and shell", args)}
}

func noName(command string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot do %q with nothing: it has no name", command),
		Remedy: "write the name of a run or a sandbox; \"isolate ps\" lists them",
	}
}

func logLost(n int64) string {
	return fmt.Sprintf("%d bytes before this are not kept", n)
}

// The document of --meta.

var errNotAFile = errors.New("it is not a file")

// Why a descriptor cannot take the document.
const (
	descriptorIsStream = "it is one of the program's streams"
	descriptorNotOpen  = "it was not passed to isolate"
	descriptorReadOnly = "it is open for reading only"
)

func metaNowhere(text string) plan.Problem {
	why := "it is no name of a file"
	if text == "-" {
		why = "standard output is the program's"
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result to %q: %s", text, why),
		Remedy: "write --meta FILE, or --meta 3 with 3>FILE behind the command",
	}
}

func metaDescriptor(text, why string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result to descriptor %s: %s", text, why),
		Remedy: "open one from 3 on, as --meta 3 with 3>FILE behind the command does\na file of that name is ./" + text,
	}
}

func metaFile(name string, err error) plan.Problem {
	p := plan.Problem{
		What:   fmt.Sprintf("cannot write the result to %q: %v", name, cause(err)),
		Remedy: "name a file in a directory that you can write to",
	}
	if errors.Is(err, errNotAFile) {
		p.Remedy = "name a file that may be replaced; for anything else pass a descriptor, as --meta 3 with 3>… does"
	}
	return p
}

func metaUnwritten(err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result: %v", err),
		Remedy: "name a file in a directory that you can write to, with space left",
	}
}

// What goes wrong while a program runs.

var errNotATerminal = errors.New("it is no terminal")

func noRawMode(err error) plan.Problem {
	return plan.Problem{What: fmt.Sprintf("cannot put the terminal into raw mode: %v", err)}
}

func stoppedTwice() plan.Problem {
	return plan.Problem{
		What:   "cannot say how the program ended: isolate was told twice to stop",
		Remedy: "what may be left of the sandbox is removed by the next isolate command",
	}
}

// The end of a run.

// ending says what ended the program, if that was not the program.
func ending(res isolate.Result, p policy.Policy, r request) string {
	switch res.Reason {
	case isolate.ReasonWall:
		return fmt.Sprintf("ended by the time limit (%s)%s; raise it with --time", duration(p.Wall), atWork(res.Calls))
	case isolate.ReasonCPU:
		return fmt.Sprintf("ended by the processor time limit (%s); raise it with --cpu-time", duration(p.CPUTime))
	case isolate.ReasonOOM:
		return fmt.Sprintf("ended by the memory limit (%v); raise it with --memory", p.Memory)
	case isolate.ReasonPIDs:
		return fmt.Sprintf("ended after it met the process limit (%d); raise it with --pids", p.PIDs)
	case isolate.ReasonDisk:
		return fmt.Sprintf("ended after it met the disk limit (%v, %d files); raise it with --disk or --inodes", p.Disk, p.Inodes)
	case isolate.ReasonOutput:
		return fmt.Sprintf("ended by the output limit (%v); raise it with --output, or leave --end-on-output out", p.Output)
	case isolate.ReasonPolicy:
		return fmt.Sprintf("ended by the system-call profile %q: the program made a call that no sandbox allows", p.Profile)
	case isolate.ReasonSandboxError:
		if res.Detail == "" {
			return "the sandbox did not do its job"
		}
		return "the sandbox did not do its job: " + res.Detail
	}
	if res.NotStarted != "" && len(r.cmd.Args) > 0 {
		return notStarted(res.NotStarted, r.cmd.Args[0])
	}
	return ""
}

func notStarted(why, program string) string {
	if why == "not-found" {
		return fmt.Sprintf("cannot run %q: there is no such program inside, or its interpreter is missing; --in copies files to /workspace, --ro shows host files", program)
	}
	return fmt.Sprintf("cannot run %q: it is not executable inside", program)
}

func dropped(n int64, stream string, p policy.Policy) string {
	return fmt.Sprintf("%d bytes in the middle of %s are left out: it passed the output limit (%v); raise it with --output", n, stream, p.Output)
}

func notCopied(list []workspace.Entry, way string) string {
	files := "1 file was"
	if len(list) > 1 {
		files = fmt.Sprintf("%d files were", len(list))
	}
	return fmt.Sprintf("%s not copied %s, first %q: %s; --meta lists them", files, way, list[0].Path, list[0].Why)
}

// howFailed says in one phrase how a program failed.
func howFailed(res isolate.Result, r request) string {
	if text := ending(res, r.policy.WithDefaults(), r); text != "" {
		text, _, _ = strings.Cut(text, ";")
		return text
	}
	if res.Signal != 0 {
		return fmt.Sprintf("ended by signal %d", res.Signal)
	}
	return fmt.Sprintf("exit code %d", res.ExitCode)
}

// cause is the reason without the path, which the words around it have.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// duration is a duration as a user writes it: "60s" and "2h", not "1m0s".
func duration(d time.Duration) string {
	switch {
	case d < 2*time.Minute && d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
