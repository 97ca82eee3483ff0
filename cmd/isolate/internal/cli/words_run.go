package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/plan"
)

// Mistakes in what the run command is given. The rules of words.go hold.

func noFile() plan.Problem {
	return plan.Problem{
		What:   "cannot run anything: there is no program file",
		Remedy: "write it behind the command: isolate run main.py\nto run a program of the sandbox write \"isolate exec -- python3 -c 'print(6*7)'\"",
	}
}

func programIsDir(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot run %q: it is a directory", name),
		Remedy: fmt.Sprintf("copy it in and name the program in it: isolate run --in %s %s/main.py", shellWord(name), shellWord(strings.TrimSuffix(name, "/"))),
	}
}

func programIsSpecial(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot run %q: it is not a file", name),
		Remedy: "write - and give the program on standard input",
	}
}

func programAndStdin() plan.Problem {
	return plan.Problem{
		What:   "cannot use --stdin with a program on standard input: it is read to its end before the program starts",
		Remedy: "give the program as a file",
	}
}

func programTooLarge(most int) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot read the program: it has more than %d MiB", most>>20),
		Remedy: "give the program as a file",
	}
}

func unknownLanguage(name string, all []string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --lang: there is no language %q here", name),
		Remedy: "write one of " + strings.Join(all, ", ") + "\nany other interpreter is named by a \"#!\" line, or by \"isolate exec --in FILE -- INTERPRETER FILE\"",
	}
}

func noInterpreter(name string, err error) plan.Problem {
	p := plan.Problem{
		What:   fmt.Sprintf("cannot run %q: %v", name, err),
		Remedy: "name its language with --lang, or its interpreter in a \"#!\" line",
	}
	if errors.Is(err, program.ErrNotExecutable) {
		p.Remedy = "make it executable: chmod +x " + shellWord(name)
	}
	return p
}

func noTypeScript(name string, noNode bool) plan.Problem {
	why := "the node inside cannot leave out types"
	if noNode {
		why = "there is no node inside"
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot run %q: %s", name, why),
		Remedy: "install node 22.6 or newer below /usr\ncompile the program to JavaScript first and run that",
	}
}

// shellWord quotes a word for a hint, if a shell would not take it as it is.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return fmt.Sprintf("%q", s)
}
