package cli

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// The end of a run. The rules of words.go hold.

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
	if res.Reason == isolate.ReasonSignal && !usual(res.Signal) {
		return res.Detail
	}
	if res.NotStarted == "not-found" && r.hostProgram {
		name := r.cmd.Args[0]
		return fmt.Sprintf("cannot run %q: it is a file of the host, and not inside; write \"isolate run %s\", or copy it in with --in", name, shellWord(name))
	}
	if res.NotStarted != "" && strings.HasSuffix(res.Detail, syscall.ENOEXEC.Error()) {
		name := r.cmd.Args[0]
		return fmt.Sprintf("cannot run %q: it is no program for this machine, or a script without a \"#!\" line: name what runs it, as in sh %s", name, shellWord(name))
	}
	if res.NotStarted != "" && len(r.cmd.Args) > 0 {
		return notStarted(res.NotStarted, r.cmd.Args[0])
	}
	return ""
}

// usual says whether a program that a signal has ended needs no words for it, as
// in a shell: it was asked to end, or nobody read what it wrote.
func usual(sig int) bool {
	switch syscall.Signal(sig) {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGTERM:
		return true
	}
	return false
}

// outputUnread is for the document only: in a pipeline it is no news.
const outputUnread = "nobody reads its standard output any more: the program at the other end has ended, or closed it"

const endedByServer = "ended by a request to the server (isolate kill)"

func notStarted(why, program string) string {
	if why == "not-found" {
		return fmt.Sprintf("cannot run %q: there is no such program inside, or its interpreter is missing; --in copies files to /workspace, --ro shows host files", program)
	}
	return fmt.Sprintf("cannot run %q: it is not executable inside", program)
}

func dropped(n int64, stream string, p policy.Policy) string {
	return fmt.Sprintf("%d bytes in the middle of %s are left out: it passed the output limit (%v); raise it with --output", n, stream, p.Output)
}

// notCopied says what was left out, and which flag lists all of it.
func notCopied(list []workspace.Entry, way, flag string) string {
	files := "1 file was"
	if len(list) > 1 {
		files = fmt.Sprintf("%d files were", len(list))
	}
	return fmt.Sprintf("%s not copied %s, first %q: %s; %s lists them", files, way, list[0].Path, list[0].Why, flag)
}

// actedOn says which of the files copied out are none to be left unread, and
// which flag lists them.
func actedOn(m *isolate.Manifest, flag string) string {
	if m == nil {
		return ""
	}
	n, first, kind := 0, "", ""
	for _, f := range m.Files {
		_, why, is := strings.Cut(f.Why, workspace.ActedOn)
		if !is {
			continue
		}
		if n++; n == 1 {
			first = f.Path
			kind, _, _ = strings.Cut(why, ";")
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("tools of the host act on a file that was copied out, %q: %s; read it first", first, kind)
	}
	return fmt.Sprintf("tools of the host act on %d of the files that were copied out, first %q: %s; read them first; %s lists them", n, first, kind, flag)
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
