package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// What is said of the audit log. The rules of words.go hold.

const (
	auditShort       = "Read and verify what was recorded"
	auditVerifyShort = "Find out whether a log was changed"
	auditShowShort   = "Print runs or records"
	auditProveShort  = "Write a proof that others can check"
	auditTailShort   = "Follow what is being recorded"
	auditReportShort = "Write what was recorded as one HTML page"
)

const auditLong = `audit reads the logs that "isolate exec --audit DIR", "isolate run --audit DIR"
and "isolate serve --audit DIR" write. docs/audit.md says what stands in them
and what they prove.`

const auditVerifyLong = `verify reads all logs in DIR and says what is wrong with them: every change of
what was recorded is found. That all of DIR was set back to an earlier state, or
written anew by who holds the key, is found with --anchor only.

Without --key the key of this user is believed, and where there is none, that
which lies in DIR. --anchor names a checkpoint that somebody else has: a file, a
URL, or the output of a command ("cmd:" before it), which is called with the
word recall.

Exit codes, that of the first problem: 0 everything is in order; 10 bad
signature; 11 root mismatch; 12 gap; 13 missing end; 14 fork; 15 truncated; 16
unknown key; 17 rolled back; 18 damaged; 19 missing run; 125 it could not be
read.`

const auditShowLong = `show lists the runs in DIR, or prints the records of one, or of the host log.
--checkpoint prints the last signed checkpoint, for somebody else to keep.`

const auditProveLong = `prove writes a JSON document that proves that a record is in the log. With
--since it proves that the log continues an earlier checkpoint. docs/audit.md
has a short program that checks such a document without isolate.`

const auditTailLong = `tail prints records as they come: those of one run, until it ends, or of all
that go on and begin.`

const auditReportLong = `report verifies the log and writes one HTML page to standard output. The page
needs nothing else: no script, no other file. --key and --anchor are those of verify. The exit code is that of
verify.`

// auditFlagHelp is the help of the flags that only these commands have.
func auditFlagHelp() map[string]string {
	return map[string]string{
		"audit":        "record what happens in this directory of logs; what cannot be recorded is not done",
		"audit-key":    "directory of the key that signs them (default: isolate in the user's state directory)",
		"audit-anchor": "let a file, a URL or a command remember checkpoints, and refuse logs that were set back",
		"attest":       "write a signed statement about the run to this file (in-toto, in a DSSE envelope); needs --audit",
		"attestation":  "compare the log with this statement (repeatable)",
		"audit-args":   "record arguments of programs and tools as text too, cut, without fields that are named like secrets (default: digests)",
		"key":          "believe this key only (repeatable)",
		"anchor":       "compare with this checkpoint (repeatable)",
		"run":          "verify this run and the host log only",
		"checkpoint":   "print the last signed checkpoint",
		"since":        "prove that the log continues the checkpoint in this file",
	}
}

func noAuditCommand(have, args []string) plan.Problem {
	p := plan.Problem{
		What:   "cannot do anything with the audit log: it is not said what",
		Remedy: "write one of " + strings.Join(have, ", ") + " behind \"isolate audit\"",
	}
	if len(args) > 0 {
		p.What = fmt.Sprintf("cannot find command %q of \"isolate audit\"", args[0])
		if near, ok := policy.Nearest(args[0], have); ok {
			p.Remedy = fmt.Sprintf("did you mean \"isolate audit %s\"?", near)
		}
	}
	return p
}

// auditArguments is too few or too many arguments: most may be given.
func auditArguments(command, use string, args []string, most int) plan.Problem {
	p := auditUse(command, use)
	if len(args) == 0 {
		p.What = fmt.Sprintf("cannot do %q with nothing: it is not said which log", command)
	} else if len(args) > most {
		p.What = fmt.Sprintf("cannot use argument %q: %q takes %d", args[most], command, most)
	}
	return p
}

func auditUse(command, use string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot do %q: arguments are missing, or one too many is there", command),
		Remedy: "write isolate audit " + use + "\nDIR is the directory that --audit named",
	}
}

// auditFailed takes an error of a log apart: most of them are of its name.
func auditFailed(err error, g auditArgs, args []string) []plan.Problem {
	list := problemsOf(err)
	_, none := os.Stat(filepath.Join(g.dir, hostLogFile))
	noLog := none != nil && errors.Is(err, fs.ErrNotExist)
	if len(list) == 0 || list[len(list)-1].Remedy != noRemedy && !noLog {
		return list
	}
	last := &list[len(list)-1]
	runs := fmt.Sprintf("\"isolate audit show %s\" lists the runs", shellWord(args[0]))
	switch {
	case none != nil:
		*last = plan.Problem{
			What:   fmt.Sprintf("cannot read audit log %q: %v", args[0], cause(none)),
			Remedy: "name the directory that was given to --audit",
		}
		if errors.Is(none, fs.ErrNotExist) {
			last.What = fmt.Sprintf("cannot read audit log %q: there is none", args[0])
		}
	case errors.Is(err, audit.ErrNotPublicKey):
		last.Remedy = "name the public key, host.key beside the logs or a copy of it; host.key in the key directory is the private one"
	case errors.Is(err, fs.ErrNotExist):
		last.What, last.Remedy = fmt.Sprintf("cannot find run %q in audit log %q", g.run, args[0]), runs
	case errors.Is(err, audit.ErrNoRun):
		last.Remedy = runs
	case errors.Is(err, audit.ErrNoRecord):
		last.Remedy = "\"isolate audit show " + shellWords(args[:min(2, len(args))]) + "\" prints the records"
	}
	return list
}

func auditNoKey(text string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --key: %q is no key, and as a file it cannot be read: %v", text, cause(err)),
		Remedy: "write the key, or name the file that holds it: host.key is beside the logs, and a copy of it elsewhere is what to believe",
	}
}

func auditNoAnchor(text string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot read anchor %q: there is none", text),
		Remedy: "name a checkpoint that somebody else has: \"isolate audit show --checkpoint DIR\" prints one to keep",
	}
}

func auditNoNumber(text string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot prove record %q: it is not the number of one", text),
		Remedy: "write its seq, as \"isolate audit show\" prints it",
	}
}

func attestAlone() plan.Problem {
	return plan.Problem{
		What:   "cannot attest the run: it is not recorded in a log of this command",
		Remedy: "add --audit DIR, and --no-server if the server has a log",
	}
}

func attestTerminal() plan.Problem {
	return plan.Problem{
		What:   "cannot use --attest and --tty together: of what goes to a terminal there is no digest",
		Remedy: "leave one of them out",
	}
}

func attestUnwritten(file string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the attestation to %q: %v", file, cause(err)),
		Remedy: "name a file in a directory that you can write to, with space left",
	}
}

func auditAlone(flags string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot use %s alone: nothing is recorded", flags),
		Remedy: "add --audit DIR",
	}
}

func auditKeyInLog(keys, dir string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot keep the key in %q: it is in the log's directory %q, and who copies that has the key", keys, dir),
		Remedy: "name another directory with --audit-key",
	}
}

func auditShown(bind, own string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot show %q: the audit log or its key is there, at %q", bind, own),
		Remedy: "show another directory, or record somewhere else",
	}
}

func auditProblem(p audit.Problem) string {
	return fmt.Sprintf("cannot believe the log %s: %s: %s", p.Log, p.Reason, p.What)
}

func auditSummary(r audit.Report) string {
	var b strings.Builder
	states := map[string]int{}
	var records int64
	for _, s := range r.Runs {
		states[s.State]++
		records += s.Records
	}
	verdict := "in order"
	if n := len(r.Problems); n > 0 {
		verdict = "NOT in order: " + count(n, "problem")
	}
	fmt.Fprintf(&b, "%s\n%s, %s", verdict, count(len(r.Runs), "run"), count(int(records), "record"))
	for _, s := range slices.Sorted(maps.Keys(states)) {
		fmt.Fprintf(&b, ", %d %s", states[s], s)
	}
	fmt.Fprintf(&b, "\nhost log: %s, key %s", count(int(r.Records), "record"), strconv.Quote(r.Key))
	if !r.Pinned {
		b.WriteString(" (taken from the directory: name the key you know with --key)")
	}
	if r.Anchors > 0 {
		fmt.Fprintf(&b, "\n%d of %s agree", r.Anchored, count(r.Anchors, "anchor"))
	} else {
		b.WriteString("\nno anchor: that all was set back would not be seen")
	}
	if r.Attested > 0 {
		fmt.Fprintf(&b, "\n%s verified", count(r.Attested, "attestation"))
	}
	b.WriteByte('\n')
	for _, s := range r.Runs {
		for _, c := range s.Unfinished {
			fmt.Fprintf(&b, "run %s: call %d of tool %s was accepted and has no end: what it did is not known\n", s.ID, c.Call, strconv.Quote(c.Tool))
		}
	}
	return b.String()
}

// recordLine is a record for people: its place, time, event and fields.
func recordLine(r audit.Record) string {
	return fmt.Sprintf("%4d %s %-16s %s", r.Seq, r.Time.Format("2006-01-02 15:04:05.000"), r.Event, dataLine(r.Data))
}

// dataLine writes the fields of an event as name=value.
func dataLine(data json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return strconv.Quote(string(data))
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var text string
		if json.Unmarshal(fields[name], &text) == nil {
			value = strconv.Quote(text)
		} else if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
			value = plaintext.Visible(strings.ReplaceAll(value, "\n", " ")) // JSON as it is: its texts have escapes of their own
		}
		if name == "cert" {
			value = "…"
		}
		list = append(list, name+"="+value)
	}
	return strings.Join(list, " ")
}

// runLine is one run in the list of runs.
func runLine(s runSummary) string {
	program := "-"
	if s.Program != "" {
		program = strconv.Quote(s.Program)
	}
	if s.File != "" {
		program += " " + strconv.Quote(s.File)
	}
	end := "no end"
	if s.End != nil {
		end = s.End.Reason
		if s.Last != nil && s.Last.Reason == "exit" {
			end = fmt.Sprintf("exit %d", s.Last.ExitCode)
		}
	}
	return fmt.Sprintf("%s %-14s %-12s %d calls, %d blocked, %s", s.ID, program, end, s.Calls, s.Blocked, s.Took.Round(time.Millisecond))
}

// recordedAs says where a run was recorded, and what to keep of it elsewhere. The
// key is the same for all: --meta has it.
func recordedAs(s *isolate.AuditSeal) string {
	return fmt.Sprintf("recorded as %s: %d records, root %s", s.Run, s.Size, s.Root)
}
