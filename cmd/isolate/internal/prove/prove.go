package prove

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/policy"
)

// Options of Run.
type Options struct {
	// Runtime makes the sandbox. Required.
	Runtime Runtime
	// Executable is a host path of the program, and Args are the arguments with
	// which it calls Attempt. Required.
	Executable string
	Args       []string
	// Dir is an existing directory for the log, which is left there. Empty means
	// a temporary one, which is removed.
	Dir string
}

// Runtime is what a demonstration needs of an isolate.Runtime.
type Runtime interface {
	// Run fails when the sandbox did not do its job.
	Run(context.Context, isolate.Policy, isolate.Cmd) (isolate.Result, error)
}

// Report is what a demonstration showed.
type Report struct {
	// Held says that everything is as it has to be.
	Held bool  `json:"held"`
	Rows []Row `json:"attempts"`
	// Problems are what is wrong with the run or the log as a whole.
	Problems []string `json:"problems"`
	// Plan is the digest of the plan, Weakenings are what it did without.
	Plan       string             `json:"plan"`
	Weakenings []policy.Weakening `json:"weakenings"`
	// UID is who ran it.
	UID int `json:"uid"`
	// Refused is how many refused calls the supervisor counted.
	Refused int64 `json:"refused_calls"`
	// Log is what is to be remembered of the log.
	Log *isolate.AuditSeal `json:"log,omitempty"`
	// Took is how long all of it took.
	Took time.Duration `json:"took_ns"`
}

// Row is one attempt.
type Row struct {
	Attempt string `json:"attempt"`
	To      string `json:"to,omitempty"`
	// Outside is what came of it on the host: "reached", the name of an error, or
	// empty if it was not tried there.
	Outside string `json:"outside,omitempty"`
	// Call and Inside are the system call that answered in the sandbox, and its
	// error; "" is success.
	Call   string `json:"call,omitempty"`
	Inside string `json:"inside,omitempty"`
	// Records are the numbers of the records in the log; Event is what they are.
	Event   string  `json:"event,omitempty"`
	Records []int64 `json:"records,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Why says more about a verdict that is not Held.
	Why string `json:"why,omitempty"`
}

// Verdict is what an attempt proves.
type Verdict string

// The verdicts. All but Held and Absent make the demonstration fail.
const (
	Held       Verdict = "held"       // kept in and recorded as it has to be; of the tool call: it worked
	Absent     Verdict = "absent"     // this machine has nothing of the kind
	Leak       Verdict = "leak"       // it got out, or got what it must not have
	Unexpected Verdict = "unexpected" // refused, but not in the way it has to be
	Unrecorded Verdict = "unrecorded" // refused, and not in the log
	Failed     Verdict = "failed"     // the tool call did not work
	Unproven   Verdict = "unproven"   // not tried, or not reached from outside either
)

// allow is what the demonstration does without where a machine does not have
// it: limits are not what it is about.
var allow = []policy.Weakening{policy.WeakLimits}

// Run makes the demonstration. The error says that it could not be made.
func Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	l, err := listen()
	if err != nil {
		return Report{}, err
	}
	defer l.close()
	logDir := o.Dir
	if logDir == "" {
		if logDir, err = os.MkdirTemp("", "isolate-prove-"); err != nil {
			return Report{}, fmt.Errorf("cannot make a directory for the log: %w", err)
		}
		defer os.RemoveAll(logDir)
	}
	control := make(chan tried, 1)
	go func() { control <- o.attemptOutside(ctx, l.from(outside)) }()
	in, err := o.attemptInside(ctx, l, logDir)
	out := <-control
	if err := errors.Join(err, out.err); err != nil {
		return Report{}, err
	}
	r := Report{
		UID: os.Getuid(), Plan: in.result.Plan, Weakenings: in.result.Weakenings,
		Refused: in.result.Blocked.Total, Log: in.result.Audit, Problems: in.problems,
	}
	r.judge(l, out.outcomes, in)
	r.Took = time.Since(began)
	return r, nil
}

// tried is what came of the program.
type tried struct {
	outcomes []outcome
	err      error
}

// attemptOutside is the program on the host. It has the listeners to try only.
func (o Options) attemptOutside(ctx context.Context, list []attempt) tried {
	in, err := json.Marshal(list)
	if err != nil {
		return tried{err: err}
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, o.Executable, o.Args...)
	cmd.Args[0] = program
	cmd.Stdin, cmd.Stderr, cmd.Env = bytes.NewReader(in), &stderr, []string{"HOME=/"}
	b, err := cmd.Output()
	if err != nil {
		return tried{err: fmt.Errorf("cannot run the attempts outside: %w: %q", err, stderr.String())}
	}
	return read(b, "outside")
}

// maxOutput bounds what is read of the program.
const maxOutput = 1 << 20

func read(b []byte, where string) tried {
	var t tried
	if err := json.Unmarshal(b, &t.outcomes); err != nil {
		t.err = fmt.Errorf("cannot read what came of the attempts %s: %w", where, err)
	}
	return t
}

// insideRun is what came of the program in the sandbox, and what is recorded.
type insideRun struct {
	attempts []attempt
	tried
	result   isolate.Result
	heard    string // what the tool was called with
	log      records
	problems []string
}

// toolName is the tool of the demonstration.
const toolName = "prove_echo"

type said struct {
	Token string `json:"token"`
}

// program is what the program is called, outside and in the sandbox.
const program = "isolate"

// attemptInside is the program in a sandbox, with a log of its own.
func (o Options) attemptInside(ctx context.Context, l *listeners, dir string) (run insideRun, err error) {
	run.attempts = l.from(inside)
	for _, a := range away() {
		a.Token = l.token(inside, a.Name)
		run.attempts = append(run.attempts, a)
	}
	in, err := json.Marshal(run.attempts)
	if err != nil {
		return run, err
	}
	heard := make(chan string, 16)
	tools := &isolate.Tools{}
	err = isolate.AddTool(tools, isolate.Tool{Name: toolName, Description: "Gives the token back.", Source: "isolate prove"},
		func(_ context.Context, s said) (said, error) {
			select {
			case heard <- s.Token:
			default:
			}
			return s, nil
		})
	if err != nil {
		return run, err
	}
	key, err := audit.LoadKey(filepath.Join(dir, "key"))
	if err != nil {
		return run, err
	}
	logs := filepath.Join(dir, "log")
	journal, err := audit.Open(logs, audit.Options{Key: key})
	if err != nil {
		return run, err
	}
	run.result, err = o.Runtime.Run(ctx, isolate.Policy{Allow: allow, Output: maxOutput}, isolate.Cmd{
		Args:  append([]string{"./" + program}, o.Args...),
		In:    []isolate.Input{{Source: o.Executable, Target: program}},
		Stdin: bytes.NewReader(in),
		Tools: tools,
		Audit: journal,
	})
	if err = errors.Join(err, journal.Close()); err != nil {
		return run, err
	}
	select {
	case run.heard = <-heard:
	default:
	}
	if run.result.Reason != isolate.ReasonExit || run.result.ExitCode != 0 {
		return run, fmt.Errorf("cannot run the attempts inside: the program ended with %s %d: %q", run.result.Reason, run.result.CommandExitCode(), run.result.Stderr.Kept)
	}
	if run.tried = read(run.result.Stdout.Kept, "inside"); run.err != nil {
		return run, run.err
	}
	err = run.verify(logs, key)
	return run, err
}

// verify reads the log and says what is wrong with it.
func (run *insideRun) verify(logs string, key *audit.Key) error {
	report, err := audit.Verify(logs, audit.VerifyOptions{Keys: []string{key.VerifierKey()}})
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		run.problems = append(run.problems, "the log does not verify: "+p.String())
	}
	if run.result.Audit == nil {
		run.problems = append(run.problems, "the run is in no log")
		return nil
	}
	if err := run.log.read(logs, run.result.Audit.Run); err != nil {
		return err
	}
	if run.log.refused != run.result.Blocked.Total {
		run.problems = append(run.problems, fmt.Sprintf("the log knows of %d refused calls, the supervisor counted %d", run.log.refused, run.result.Blocked.Total))
	}
	return nil
}
