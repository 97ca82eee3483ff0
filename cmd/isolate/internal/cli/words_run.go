package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/isolate-run/isolate"
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

// noSuchFile is for a program file that is not there, which may be a command or
// an image in its place. arguments are those behind it, as they are typed.
func noSuchFile(name, arguments string) plan.Problem {
	p := unreadable("program", name, syscall.ENOENT)
	switch image, _, tagged := strings.Cut(path.Base(name), ":"); {
	case (tagged || slices.Contains(images, image)) && arguments != "":
		p.Remedy = noImages + "\nwrite it without the name of an image: isolate exec -- " + arguments
	case tagged || slices.Contains(images, image):
		p.Remedy = noImages + "\nwrite it without the name of an image: isolate shell"
	case !strings.ContainsAny(name, "/."):
		p.Remedy += "\nto run a program of the sandbox write: isolate exec -- " + strings.TrimSpace(shellWord(name)+" "+arguments)
	}
	return p
}

// images are names that elsewhere are those of images, and of no program.
var images = []string{"alpine", "archlinux", "busybox", "centos", "debian", "fedora", "rockylinux", "ubuntu"}

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

func unknownLanguage(name string) plan.Problem {
	all := program.Languages()
	for i, l := range all {
		if also := program.Aliases(l); len(also) > 0 {
			all[i] += " (" + strings.Join(also, ", ") + ")"
		}
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --lang: there is no language %q here", name),
		Remedy: "write one of " + strings.Join(all, ", ") + "\nany other interpreter is named by a \"#!\" line, or by \"isolate exec --in FILE -- INTERPRETER FILE\"",
	}
}

func noInterpreter(name string, err error) plan.Problem {
	p := plan.Problem{
		What:   fmt.Sprintf("cannot run %q: %v", name, err),
		Remedy: "name its language with --lang, or its interpreter in a \"#!\" line\nif it is a model's reply with the program in a fenced block, add --reply",
	}
	if errors.Is(err, program.ErrNotExecutable) {
		p.Remedy = "make it executable: chmod +x " + shellWord(name)
	}
	return p
}

func noInterpreterOfReply(name string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot run the program in %q: %v", name, err),
		Remedy: "name its language with --lang, or let the reply's fenced block have it as its tag",
	}
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

const noToolsGiven = "the program looks for tools, and was given none; give it some by --tools FILE, --tool NAME=./program or --mcp NAME=SERVER"

// callsMade says in one phrase what became of the calls; empty without tools.
func callsMade(c *isolate.Calls) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%d done", c.Done)
	if c.Failed > 0 {
		text = fmt.Sprintf("%d done, of which %d failed", c.Done, c.Failed)
	}
	if c.Refused > 0 {
		text += fmt.Sprintf(", %d refused", c.Refused)
	}
	if c.Unknown > 0 {
		text += fmt.Sprintf(", %d cut off while the tool was at work", c.Unknown)
	}
	return text
}

// atWork says how many tools were cut off by the end of the program.
func atWork(c *isolate.Calls) string {
	switch {
	case c == nil || c.Unknown == 0:
		return ""
	case c.Unknown == 1:
		return " while a tool was at work"
	}
	return fmt.Sprintf(" while %d tools were at work", c.Unknown)
}

// shellWord quotes a word for a hint, if a shell would not take it as it is.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// Mistakes in tools. What package bridge and those below it say is repeated.

var errNotEmpty = errors.New("it is not empty, and nothing there is ever overwritten")

// checkHint is left out where it is what was done.
const checkHint = "\n\"isolate tools check\" looks at tools without running a program"

func wrongTool(err error) []plan.Problem {
	var list []plan.Problem
	for line := range strings.Lines(err.Error()) {
		list = append(list, plan.Problem{What: strings.TrimSuffix(line, "\n")})
	}
	list[len(list)-1].Remedy = "correct the tool, or leave it out" + checkHint
	return list
}

func wrongServer(err error) plan.Problem {
	return plan.Problem{What: err.Error(), Remedy: "see that the server runs, and that its name, path or URL is right"}
}

func wrongApproval(text string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --approve: %q says neither when nor of which tools", text),
		Remedy: "write never, ask or writes, for all tools, or PATTERN=ask for some",
	}
}

func approvalOfNothing(typed, pattern string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use --approve %q: no tool has a name like %q", typed, pattern),
		Remedy: "\"isolate tools ls\" lists the names",
	}
}

func wrongAsker(ask string, err error) plan.Problem {
	p := plan.Problem{
		What:   fmt.Sprintf("cannot ask %q: %v", ask, err),
		Remedy: "write terminal, nobody, a command, or the URL of a web service",
	}
	if strings.HasPrefix(ask, "http") {
		p.Remedy = "put the secret that signs the questions into the variable " + webhookSecret
	}
	return p
}

func flagsWithoutTools(list string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use %s: there are no tools", list),
		Remedy: "give some by --tools FILE, --tool NAME=./program or --mcp NAME=SERVER",
	}
}

func serverDied() plan.Problem {
	return plan.Problem{
		What:   "cannot say how the program ended: the server has ended before it",
		Remedy: "the program was ended with it; run it again, or add --no-server",
	}
}

func toolsOfServer() plan.Problem {
	return plan.Problem{
		What:   "cannot give the program tools: a server runs none for others",
		Remedy: "add --no-server",
	}
}

func noTools() plan.Problem {
	return plan.Problem{
		What:   "cannot look at tools: none are given",
		Remedy: "give some by --tools FILE, --tool NAME=./program or --mcp NAME=SERVER",
	}
}

func noStubDir() plan.Problem {
	return plan.Problem{
		What:   "cannot write modules: it needs the name of one directory",
		Remedy: "write isolate tools stub --tools FILE DIR",
	}
}

func wrongStubDir(name string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write modules to %q: %v", name, cause(err)),
		Remedy: "name an empty directory of yours, or one that does not exist in one that does",
	}
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
