package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// What is said to somebody who meant something else. The rules of words.go hold.

// synonym is the command that does what a word means which is none; empty if
// there is no such command.
func synonym(word string, have []string) string {
	if len(have) == 1 {
		return have[0] // whatever was meant, there is nothing else
	}
	meant := map[string]string{"list": "ls", "lint": "check", "validate": "check", "generate": "stub", "log": "show", "follow": "tail", "list-runs": "ps",
		"create": "new", "make": "new", "exec": "run", "write": "put", "read": "get", "cat": "get", "remove": "rm", "delete": "rm",
		"stop": "kill", "stats": "top"}[word]
	if slices.Contains(have, meant) {
		return meant
	}
	return ""
}

const noImages = "there are no images: programs see the host's /usr, or another root file system with --rootfs DIR"

// commandOfAnother is what to write in place of a command that another tool has,
// and that needs more than another word; empty for every other.
func commandOfAnother(word string) string {
	switch word {
	case "build", "pull", "push", "images", "image":
		return noImages
	case "policy":
		return "\"isolate exec --policy FILE --explain -- true\" checks a policy file and prints the plan; \"isolate net explain --policy FILE HOST\" asks about its network"
	case "cp", "copy":
		return "copy files with --in and --out, or with \"isolate sandbox put\" and \"isolate sandbox get\""
	}
	return ""
}

func flagOfAnother(typed string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot find flag %q", typed),
		Remedy: fmt.Sprintf("it is a flag of \"isolate run\", which runs a program file: isolate run main.py %s …", shellWord(typed)),
	}
}

const servesLittle = "every command that this server carries out is refused like that, wherever it is called from, unless it consents; end it and start it where \"isolate doctor\" finds nothing missing"

// blame says of problems that are the server's own that they are, and what the
// caller can do about it.
func (a *app) blame(problems []plan.Problem) []plan.Problem {
	list := slices.Clone(problems)
	for i, p := range list {
		for _, own := range a.lacks {
			if p.What == own.What {
				list[i].Remedy = "this is so where the server was started, and maybe not here: add --no-server, or end \"isolate serve\" and start it where \"isolate doctor\" finds nothing missing"
			}
		}
	}
	return list
}

// notInside says of a program that failed as one does which cannot open a file:
// one of its arguments is a file of the host that it does not see. Empty if
// there is none.
func notInside(res isolate.Result, r request) string {
	if r.hostFile == "" || res.Reason != isolate.ReasonExit || res.NotStarted != "" || res.ExitCode == 0 || res.ExitCode > 2 && res.ExitCode != 127 {
		return ""
	}
	in := filepath.Clean(r.hostFile)
	if strings.Contains(in, "/") && !strings.Contains(in, ":") && filepath.IsLocal(in) {
		in += ":" + in
	}
	return fmt.Sprintf("%q is a file of the host, and the program does not see it: add --in %s to copy it in; \"isolate run\" copies a program in by itself", r.hostFile, shellWord(in))
}

// noHostPort says of a program that failed and reached no port of this machine,
// although it was granted one, where it is. Empty for every other.
func noHostPort(res isolate.Result, p policy.Policy) string {
	if len(p.Net.HostPorts) == 0 || res.Net == nil || res.Net.Flows+res.Net.Denied > 0 || res.Reason != isolate.ReasonExit || res.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf("the program used no port of this machine; inside, their host is %s, and localhost is the sandbox's own", egress.HostName)
}

// noNetwork says of a program that failed and wanted a network that it has none.
// Refused connections are on record. A look-up leaves nothing there: names are
// in a file inside, and no socket is made for them; so that is known only to
// the last words of the program, noName. Empty for every other.
func noNetwork(res isolate.Result, p policy.Policy, noName bool) string {
	if p.Net.Mode != egress.ModeNone || len(p.Net.HostPorts) > 0 || res.Reason != isolate.ReasonExit || res.NotStarted != "" || res.ExitCode == 0 {
		return ""
	}
	for _, e := range res.Blocked.Events {
		if e.Port > 0 {
			return fmt.Sprintf("the program wanted to reach %s port %d, and has no network; --net allow:HOST lets it reach one", e.Address, e.Port)
		}
	}
	if noName {
		return "the program wanted to look a name up, and has no network; --net allow:HOST lets it reach one"
	}
	return ""
}

// looksUp says whether a program's last words are that a name was not found, as
// the C library, curl, wget, Node, Go, Rust, Java and Ruby say it.
func looksUp(stderr []byte) bool {
	for _, words := range []string{"Name or service not known", "Temporary failure in name resolution", "Could not resolve host", "unable to resolve host", "ENOTFOUND", "EAI_AGAIN", "no such host", "failed to lookup address", "UnknownHostException"} {
		if bytes.Contains(stderr, []byte(words)) {
			return true
		}
	}
	return false
}

// shellWords are words as a shell takes them.
func shellWords(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = shellWord(w)
	}
	return strings.Join(list, " ")
}

func toolsWithoutFlag(command, arg string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use argument %q: %q takes none", arg, command),
		Remedy: fmt.Sprintf("if it is a file that declares tools, write %s --tools %s", command, shellWord(arg)),
	}
}

// explainTools are lines of a plan about the tools: where they come from. No
// server is started for it, so what a server has is not known.
func explainTools(s toolset) string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", key, fmt.Sprintf(format, args...))
	}
	tool := func(name, path string) { line("tool", "%s: command %s", shellWord(name), shellWord(path)) }
	server := func(name string) {
		line("tools", "%s: an MCP server, whose tools \"isolate tools ls\" lists", shellWord(name))
	}
	if s.file != nil {
		for _, t := range s.file.Tools {
			tool(t.Name, t.Command)
		}
		for _, m := range s.file.Servers {
			server(m.Name)
		}
	}
	for _, f := range s.commands {
		tool(f.Name, f.Path)
	}
	for _, m := range s.servers {
		server(m.Name)
	}
	return b.String()
}

// explainBuild is the plan of what comes before the program.
func explainBuild(command string, p plan.Plan) string {
	return fmt.Sprintf("%-12s %s: first, in a sandbox of its own; what it leaves is at %s, read-only\n  %s\n",
		"build", shellWord(command), buildDir, strings.ReplaceAll(strings.TrimSuffix(p.Text(), "\n"), "\n", "\n  "))
}

// unusablePlaceError is about a place that the user has named, and only that.
type unusablePlaceError struct{ error }

func (e *unusablePlaceError) Unwrap() error { return e.error }

// unusablePlace marks the error of a place that the user has named, if it says
// that the place cannot be used.
func unusablePlace(err error) error {
	for _, errno := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, syscall.ENOTDIR, syscall.EROFS, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, errno) {
			return &unusablePlaceError{err}
		}
	}
	return err
}
