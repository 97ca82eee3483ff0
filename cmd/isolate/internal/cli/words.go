package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/plan"
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
	if err == nil || unread(err) {
		return nil
	}
	var refusal *plan.Refusal
	if errors.As(err, &refusal) && len(refusal.Problems) > 0 {
		return refusal.Problems
	}
	var files *workspace.Refusal
	if errors.As(err, &files) && len(files.Problems) > 0 {
		var list []plan.Problem
		for _, p := range files.Problems {
			list = append(list, plan.Problem(p))
		}
		return list
	}
	var list []plan.Problem
	for line := range strings.Lines(err.Error()) {
		list = append(list, plan.Problem{What: strings.TrimSuffix(line, "\n")})
	}
	if last := len(list) - 1; last >= 0 {
		list[last].Remedy = remedy(err)
		// the text of a library that knows what to do ends with it
		if what, order, told := strings.Cut(list[last].What, "; "); told && list[last].Remedy == noRemedy {
			list[last].What, list[last].Remedy = what, order
		}
	}
	return list
}

// unread says that who read our output has gone. They know, and need no words.
func unread(err error) bool {
	var file *fs.PathError // and not a connection
	return errors.As(err, &file) && file.Op == "write" && errors.Is(file.Err, syscall.EPIPE)
}

func outputUnwritten(err error) plan.Problem {
	return plan.Problem{What: fmt.Sprintf("cannot write standard output: %v", cause(err)), Remedy: remedy(err)}
}

func inputUnread(err error) string {
	return fmt.Sprintf("cannot read standard input: %v; the program has seen its end there", cause(err))
}

// remedy is what to do about an error that says nothing about it itself.
func remedy(err error) string {
	switch {
	case errors.Is(err, workspace.ErrLimit):
		return ""
	case errors.Is(err, syscall.ENOSPC):
		return "make room there, or write to another place"
	case errors.Is(err, syscall.EFBIG):
		return "raise the limit of file sizes: ulimit -f unlimited"
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

func explainedOnly(files string) string {
	return fmt.Sprintf("nothing was run, and nothing written for %s; leave out --explain to run the program", files)
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
