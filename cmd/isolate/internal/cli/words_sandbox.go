package cli

import (
	"fmt"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// The words of isolate sandbox. The rules of words.go hold.

const (
	sandboxShort = "Keep a sandbox at the server, and work in it"
	sandboxLong  = `A kept sandbox has its files and /tmp from one program to the next. It needs a
server (isolate serve) and ends with it, with its lease, or by "isolate
sandbox rm", which "isolate rm" does as well. "isolate ps" lists those there
are, "isolate kill" ends what runs in one.`

	sandboxNewShort = "make a sandbox, and print its name"
	sandboxNewLong  = `The lease ends when the sandbox was not used for --idle, and in any case after
--lifetime. What its programs may do, together, is said as for "isolate exec",
by the same flags and the same policy file.`

	sandboxRunShort = "run a program in a kept sandbox"
	sandboxRunLong  = `The exit codes are those of "isolate exec", and --meta writes what it writes
there. The limits are those that the sandbox was made with. Output passes
through the server as text of its protocol: for much of it isolate exec is
faster.

Flags stand before the sandbox; what is behind it is the program's own.`

	sandboxPutShort = "write standard input, or a file or directory, into a kept sandbox"
	sandboxPutLong  = `Without a source, standard input becomes the file of that name: an empty one
an empty file. It must not be a terminal. A source is a file or directory of
the host, copied as "isolate exec --in" copies it: what is in a directory goes
into the one of that name, and into the workspace itself if the name is ".".

Files are named from /workspace on, and are there whole or not at all. Links
are not followed.`

	sandboxGetShort = "write a file of a kept sandbox to standard output, or copy a directory"
	sandboxGetLong  = `Without a target, the file of that name is written to standard output. A target
is a directory of the host that is empty or not there: what is in the directory
of that name is copied to it as "isolate exec --out" does, and the whole
workspace if the name is ".".

Files are named from /workspace on. Links are not followed.`

	sandboxLsShort = "list a directory of a kept sandbox"
	sandboxLsLong  = `The directory is named from /workspace on, which is listed itself if none is
named: permission bits, size, kind and name.`

	sandboxRmShort = "end kept sandboxes, with all they hold"
	sandboxRmLong  = "What runs in them is ended. It is what \"isolate rm\" does with the name of a sandbox."

	visitTime   = "end the program after this time, if that is less than the sandbox was made with"
	sandboxIdle = "keep the sandbox for so long without use (default 10m)"
)

func sandboxTime() string {
	return "longest time that each program may take (default " + duration(policy.DefaultWall) + ")"
}

// unwritablePolicy is a policy that the server cannot be told.
func unwritablePolicy(err error) plan.Problem {
	return plan.Problem{What: err.Error(), Rule: "a server is told a policy as text", Remedy: "show the path under another name: a link, or a bind mount"}
}

// sandboxHabits are the flags that a command of isolate sandbox has not, and
// that are meant there.
func sandboxHabits(command string) []habits {
	const files = "copy files with \"isolate sandbox put\" and \"isolate sandbox get\""
	const tools = "leave it out: programs of a kept sandbox have no tools; \"isolate run main.py --tool NAME=PROGRAM\" runs one that has, in a sandbox of its own"
	own := []habits{
		{"--in --out -v --volume --mount --bind", habit{files, 1}},
		{"--tty -t -it -ti", habit{hint: "leave it out: a program in a kept sandbox has no terminal; \"isolate shell\" gives one"}},
		{"--tool --tools --mcp --approve --ask --max-calls --parallel", habit{tools, 1}},
		{"--mcp-socket", habit{hint: tools}},
		{"--no-server", habit{hint: "leave it out: a sandbox is kept by a server, and there is no other way"}},
		{"--audit --audit-key --audit-anchor", habit{"start the server with it: isolate serve --audit DIR; it records all runs", 1}},
		{"--audit-args", habit{hint: "start the server with it: isolate serve --audit DIR; it records all runs"}},
		{"--rm -d --detach", habit{hint: "leave it out: the sandbox stays until its lease ends, or \"isolate sandbox rm\" ends it"}},
	}
	switch command {
	case "isolate sandbox new":
		const program = "give it to each program: isolate sandbox run "
		return append(own,
			habits{"--env --env-from -e", habit{program + "--env NAME=VALUE …; what all are to have stands in the table [env] of the --policy file", 1}},
			habits{"--workdir -w", habit{program + "--workdir PATH …", 1}},
			habits{"--meta", habit{program + "--meta FILE …", 1}},
			habits{"--stdin -i --interactive", habit{hint: program + "--stdin …"}},
			habits{"--explain", habit{hint: "\"isolate exec --explain\" prints the plan of the same flags"}},
			habits{"--name", habit{"leave it out: the server gives the sandbox its name, which is printed", 1}},
		)
	case "isolate sandbox run":
		for _, f := range policyFlags() {
			own = append(own, habits{"--" + f.name, habit{"the sandbox was made with its policy: isolate sandbox new --" + f.name + " …", f.values()}})
		}
		return append(own,
			habits{"-e", habit{"write --env NAME=VALUE", 1}},
			habits{"-w", habit{"write --workdir PATH", 1}},
			habits{"-i --interactive", habit{hint: "write --stdin to connect standard input"}},
			habits{"--explain", habit{hint: "\"isolate exec --explain\" prints the plan of the flags that the sandbox was made with"}},
		)
	}
	return nil
}

// wantsFile is said of arguments, or flags beside them, from which it is not
// clear what is to be copied.
func wantsFile(command string, args []string) error {
	stream, host, own := "<FILE", "SOURCE", "--mode is for standard input, --json for a source"
	if command == "get" {
		stream, host, own = ">FILE", "TARGET", "--json is for a target"
	}
	p := plan.Problem{
		What:   fmt.Sprintf("cannot %s: a sandbox and a name in it are wanted, and at most one path of the host", command),
		Remedy: fmt.Sprintf("isolate sandbox %s SANDBOX NAME %s\nisolate sandbox %s SANDBOX NAME %s", command, stream, command, host),
	}
	if len(args) == 2 || len(args) == 3 {
		p.What = fmt.Sprintf("cannot %s with these flags: %s", command, own)
	}
	return &plan.Refusal{Problems: []plan.Problem{p}}
}

func putOfTerminal(sandbox, name string) error {
	command := "isolate sandbox put " + shellWords([]string{sandbox, name})
	return &plan.Refusal{Problems: []plan.Problem{{
		What:   fmt.Sprintf("cannot put %q: there is no source, and standard input is a terminal", name),
		Remedy: command + " SOURCE\n" + command + " <FILE",
	}}}
}

func flagBehindSandbox(sandbox, typed string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag %q here: flags stand before the sandbox", typed),
		Remedy: fmt.Sprintf("write isolate sandbox run [flags] %s -- PROGRAM\na program of that name goes behind \"--\"", shellWord(sandbox)),
	}
}

// closing is what is said at the end of a program in a kept sandbox: what ended
// it, if that was not the program, and what of its output is not there.
func (v *visit) closing() []string {
	var lines []string
	if text := v.ending(); text != "" {
		lines = append(lines, text)
	}
	if n := v.result.Stdout.Dropped + v.result.Stderr.Dropped; n > 0 && dropping(*v.result) {
		lines = append(lines, fmt.Sprintf("%d bytes in the middle of the output are left out: it passed the limit that %s was made with (isolate sandbox new --output)", n, v.sandbox))
	}
	return lines
}

func (v *visit) ending() string {
	res := v.result
	switch res.Reason {
	case isolate.ReasonWall, isolate.ReasonCPU, isolate.ReasonOOM, isolate.ReasonPIDs, isolate.ReasonDisk, isolate.ReasonOutput, isolate.ReasonPolicy:
		if res.Reason == isolate.ReasonWall && v.request.Time != "" {
			return res.Detail
		}
		return fmt.Sprintf("%s; the limits of %s are those of the policy that it was made with", res.Detail, v.sandbox)
	case isolate.ReasonCancelled:
		return fmt.Sprintf("ended by a request to the server, or because %s was to end; \"isolate ps\" lists it if it is still there", v.sandbox)
	case isolate.ReasonSandboxError:
		return "the sandbox did not do its job: " + res.Detail
	}
	switch program := v.request.Args[0]; res.NotStarted {
	case "":
		return ""
	case "not-found":
		return fmt.Sprintf("cannot run %q: there is no such program inside, or its interpreter is missing; \"isolate sandbox put\" copies a file in", program)
	default:
		return fmt.Sprintf("cannot run %q: it is not executable inside; \"isolate sandbox put --mode 755\" copies a file in that is", program)
	}
}
