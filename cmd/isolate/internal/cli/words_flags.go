package cli

import (
	"fmt"

	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// Mistakes in commands and flags. The rules of words.go hold.

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
	if near := synonym(args[0], have); near != "" {
		p.Remedy = fmt.Sprintf("did you mean \"%s %s\"?", command, near)
	} else if near, ok := policy.Nearest(args[0], have); ok {
		p.Remedy = fmt.Sprintf("did you mean \"%s %s\"?", command, near)
	} else if other := commandOfAnother(args[0]); other != "" {
		p.Remedy = other + "\n" + all
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
	p := plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: %q is not true or false", flag, text),
		Remedy: fmt.Sprintf("write --%s, or leave it out", flag),
	}
	if flag == "stdin" && text != "" { // a judge's isolate opens the file itself
		p.Remedy = "write --stdin and < FILE, or leave it out"
	}
	return p
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
