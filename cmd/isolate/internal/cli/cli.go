// Package cli is the isolate command: flags in, package isolate in the middle,
// words and exit codes out.
//
// Each command is one file and holds no logic beyond flags, a value, a call
// and printing. Everything a person reads stands in words.go. It does not
// decide what is safe: that is packages policy, plan and isolate. What it does
// itself is of the terminal and the shell: signals, raw mode, descriptors,
// exit codes. It needs Linux only through package isolate.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/plan"
)

// Exit codes of the command itself, design section 8. The others are the
// program's own and those of isolate.Result.CommandExitCode.
const (
	exitOK      = 0
	exitRefused = 125 // refused, or isolate did not do its job
	exitSignal  = 128 // added to the number of a signal
)

// The variables with the place in a trace that a command begins at.
const (
	traceParent = "TRACEPARENT"
	traceState  = "TRACESTATE"
)

// app is one call of the command: what it was given and what it came to.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// getenv looks a variable of the caller up, for --env-from.
	getenv func(string) (string, bool)
	// environ is all of them, for tools of the host; nil in a server, which
	// starts none.
	environ func() []string
	// dir is the directory that relative host paths start from, or the
	// reason why there is none.
	dir    string
	dirErr error
	// open is isolate.Open, or gives the runtime of a server.
	open func(context.Context, isolate.Options) (runtime, error)
	// lending is where to lend the bridge to whoever has the tools; nil if the
	// command itself has them.
	lending *net.UnixConn
	// line is the whole command line.
	line []string
	// via says which of the two it is.
	via via
	// lacks are the problems that are the server's own; nil is none.
	lacks []plan.Problem
	// signals is where signals come from; nil is the operating system.
	signals signalSource
	// descriptor gives one that the caller passed, or says why it cannot; nil
	// is the process's own.
	descriptor func(n int) (file, string)
	// gone says whether nobody waits for the command any more; nil is that
	// somebody does.
	gone func() bool
	// behind are runs whose command has not waited for them.
	behind sync.WaitGroup

	// exporter makes what sends telemetry; nil if this program cannot.
	exporter Exporter
	// telemetry is told of runs; nil is nobody.
	telemetry isolate.Telemetry
	// unsent is what OpenTelemetry was not told, and why; empty if nothing.
	unsent string

	// mistakes are what is wrong with the flags, found before they are parsed.
	mistakes []plan.Problem
	// outputLost is why standard output could not be written; nil if it could.
	outputLost error
	// watched are the signals that the command watches for; nil is none.
	watched *interrupts
	// typed are the arguments of a command line that names no command.
	typed []string
	code  int
}

// runtime is what the commands need of an isolate.Runtime.
type runtime interface {
	// Plan fails with a *plan.Refusal when the policy cannot be enforced here.
	Plan(context.Context, isolate.Policy) (plan.Plan, error)
	// Run fails when the sandbox did not do its job.
	Run(context.Context, isolate.Policy, isolate.Cmd) (isolate.Result, error)
	// Close fails when something of the sandboxes is left.
	Close() error
}

var _ runtime = (*isolate.Runtime)(nil)

func openRuntime(ctx context.Context, o isolate.Options) (runtime, error) {
	rt, err := isolate.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return rt, nil
}

// Run runs the command line args, args[0] being the command's own name, and
// returns the exit code. It reads the caller's environment for --env-from,
// telemetry and the place in a trace, and the working directory for relative
// paths. It does not return if another program has to go on, see becomeTelling.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return RunWithTelemetry(ctx, nil, args, stdin, stdout, stderr)
}

// RunWithTelemetry is Run in a program that can send telemetry.
func RunWithTelemetry(ctx context.Context, e Exporter, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	keepOwnRights()
	dir, err := os.Getwd()
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		getenv: os.LookupEnv, environ: os.Environ,
		dir: dir, dirErr: err, line: args,
		open: openRuntime, exporter: e,
	}
	a.becomeTelling(args)
	code := a.main(ctx, args[min(1, len(args)):])
	if a.interrupted() {
		dieOf(syscall.SIGINT)
	}
	return code
}

// keepOwnRights leaves us, who make directories, our own rights to them: a umask
// that takes these away would have us make ~/.local, the log and the cgroup
// such that nobody can enter them. What it takes from others stays taken.
func keepOwnRights() { unix.Umask(unix.Umask(0o077) &^ 0o700) }

func (a *app) main(ctx context.Context, args []string) int {
	root := a.one(args)
	if root == nil {
		root = a.root()
	}
	return a.execute(ctx, root, args)
}

func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(a.checkFlags(root, args))
	parent, _ := a.getenv(traceParent)
	state, _ := a.getenv(traceState)
	if err := root.ExecuteContext(isolate.WithTraceContext(ctx, parent, state)); err != nil {
		// Flags are checked beforehand and commands return nil, so this is
		// an argument that cobra understood in another way than we did.
		return a.refuse(plan.Problem{What: err.Error()})
	}
	switch err := a.outputLost; {
	case err == nil:
	case errors.Is(err, syscall.EPIPE): // who read it knows
		if a.code == 0 { // a code that is an answer stays it
			a.code = exitSignal + int(syscall.SIGPIPE)
		}
	default:
		a.code = a.refuse(outputUnwritten(err))
	}
	return a.code
}

// say writes to standard output. What is lost is told at the end.
func (a *app) say(text string) {
	if _, err := io.WriteString(a.stdout, text); err != nil && a.outputLost == nil {
		a.outputLost = err
	}
}

// notice writes a line to standard error that a person is to know.
func (a *app) notice(text string) { fmt.Fprintln(a.stderr, "isolate: "+text) }

// lossy is standard output for who does not look at errors.
type lossy struct{ *app }

func (l lossy) Write(p []byte) (int, error) {
	l.say(string(p))
	return len(p), nil
}

// Commands returns the tree of commands for generating manual pages. Its
// commands must not be executed.
func Commands() *cobra.Command {
	return (&app{stdout: io.Discard, stderr: io.Discard}).root()
}

// root builds the tree. Nothing of it exists before it is called: the binary
// is executed again for every cell, and that must not pay for commands.
func (a *app) root() *cobra.Command {
	root := a.bare()
	exec, run, tools, shell, sandbox := a.execCommand(), a.runCommand(), a.toolsCommand(), a.shellCommand(), a.sandboxCommand()
	for _, c := range append(slices.Concat(tools.Commands(), sandbox.Commands()), exec, run, shell) {
		offerValues(c)
	}
	root.AddCommand(
		exec, run, tools, shell, a.doctorCommand(), a.proveCommand(), a.benchCommand(), a.serveCommand(), a.auditCommand(), a.netCommand(),
		sandbox, a.psCommand(), a.topCommand(), a.logsCommand(), a.killCommand(), a.rmCommand(), a.poolCommand(),
		a.versionCommand(), a.completionCommand(),
	)
	return root
}

// one is the tree with the one command that runs programs which args name; nil
// if they name another. The whole tree takes 0.5 ms to build, and these
// commands are those that are started again and again.
func (a *app) one(args []string) *cobra.Command {
	make := map[string]func() *cobra.Command{"exec": a.execCommand, "run": a.runCommand, "shell": a.shellCommand}
	if len(args) == 0 || make[args[0]] == nil {
		return nil
	}
	root := a.bare()
	root.AddCommand(make[args[0]]())
	return root
}

// bare is the tree without commands.
func (a *app) bare() *cobra.Command {
	root := &cobra.Command{
		Use:                   "isolate",
		Short:                 rootShort,
		Long:                  rootLong,
		Args:                  cobra.ArbitraryArgs,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if wanted, _ := cmd.Flags().GetBool("version"); wanted && len(args)+len(a.mistakes) == 0 {
				return a.printVersion()
			}
			a.code = a.refuse(a.lost(cmd, args)...)
			return nil
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(lossy{a})
	root.SetErr(a.stderr)
	root.Flags().Bool("version", false, versionShort)
	root.SetHelpCommand(a.helpCommand())
	// a command that only has others is of no use alone
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	return root
}

// lost says what is wrong with a command line that leads to no command.
func (a *app) lost(root *cobra.Command, args []string) []plan.Problem {
	if len(args) == 0 && len(a.mistakes) > 0 {
		return a.mistakes // there would be a command, were it not for them
	}
	if !root.HasParent() && len(args) > 0 {
		return append(a.mistakes, noCommand("isolate", names(root), args, a.meant(a.typed)))
	}
	return append(a.mistakes, noCommand(root.CommandPath(), names(root), args, ""))
}

// meant is the command line that runs what was typed in place of a command.
func (a *app) meant(typed []string) string {
	if len(typed) == 0 {
		return ""
	}
	_, err := program.Choose(filepath.Base(typed[0]), "", nil, 0)
	if err == nil || a.isFile(typed[0]) && strings.Contains(typed[0], "/") {
		return "isolate run " + shellWords(typed)
	}
	in := ""
	for _, arg := range typed[1:] {
		if a.isFile(arg) && !strings.Contains(arg, "/") {
			in += " --in " + shellWord(arg)
		}
	}
	return "isolate exec" + in + " -- " + shellWords(typed)
}

// isFile says whether a name is that of a file of the host.
func (a *app) isFile(name string) bool {
	full, err := a.abs(name)
	if err != nil || strings.HasPrefix(name, "-") {
		return false
	}
	st, err := os.Stat(full)
	return err == nil && st.Mode().IsRegular()
}

// names lists the commands a user may type.
func names(root *cobra.Command) []string {
	var list []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, c.Name())
		}
	}
	return list
}

// plain makes a command that takes no arguments and cannot go on with a
// mistake in its flags.
func (a *app) plain(c *cobra.Command, do func() error) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		problems := a.mistakes
		if len(args) > 0 {
			problems = append(problems, extraArgument(cmd.CommandPath(), args[0]))
		}
		if len(problems) > 0 {
			a.code = a.refuse(problems...)
			return nil
		}
		return do()
	}
	return c
}
