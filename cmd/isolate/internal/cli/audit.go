package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/plan"
)

// hostRun is how the host log is named where the id of a run is expected.
const hostRun = "host"

// auditCommand reads what exec, run and serve have recorded.
func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: auditShort, Long: auditLong, DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.code = a.refuse(a.mistakes...)
		if len(a.mistakes) == 0 || len(args) > 0 {
			a.code = a.refuse(noAuditCommand(names(cmd), args))
		}
		return nil
	}
	cmd.AddCommand(a.auditVerify(), a.auditShow(), a.auditProve(), a.auditTail(), a.auditReport())
	return cmd
}

// auditReadFlags are all flags of the subcommands; each takes some.
func auditReadFlags() []flagSpec {
	return []flagSpec{
		{name: "key", kind: "KEY|FILE"},
		{name: "anchor", kind: "FILE|URL|cmd:COMMAND"},
		{name: "attestation", kind: kindFile},
		{name: "run", kind: "RUN"},
		{name: "json", kind: kindSwitch, alone: "true"},
		{name: "checkpoint", kind: kindSwitch, alone: "true"},
		{name: "since", kind: kindFile},
	}
}

// auditArgs are the arguments of a subcommand: DIR, and what follows.
type auditArgs struct {
	dir string
	// run is empty for the host log; given says whether it was named.
	run   string
	given bool
	// rest is what follows the run.
	rest []string
}

// auditLeaf makes a subcommand with the named flags that takes DIR, a run where
// most is over 1, and as many more arguments.
func (a *app) auditLeaf(cmd *cobra.Command, flags string, least, most int, do func(*reader, auditArgs) error) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.Annotations = map[string]string{flagsAnywhere: ""}
	f := addFlags(cmd, slices.DeleteFunc(auditReadFlags(), func(s flagSpec) bool {
		return !slices.Contains(strings.Fields(flags), s.name)
	}))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &reader{app: a, flags: f, problems: a.mistakes}
		if len(args) < least || len(args) > most {
			r.add(auditArguments(cmd.CommandPath(), cmd.Use, args, most))
		}
		var g auditArgs
		if len(args) > 0 {
			dir, err := a.abs(args[0])
			if err != nil {
				r.add(problemsOf(err)...)
			}
			g.dir = dir
		}
		if len(args) > 1 {
			g.given, g.rest = true, args[2:]
			if args[1] != hostRun {
				g.run = args[1]
			}
		}
		if len(r.problems) == 0 {
			if err := do(r, g); err != nil {
				r.add(auditFailed(err, g, args)...)
			}
		}
		if len(r.problems) > 0 {
			a.code = a.refuse(r.problems...)
		}
		return nil
	}
	return cmd
}

func (a *app) auditVerify() *cobra.Command {
	cmd := &cobra.Command{Use: "verify [flags] DIR", Short: auditVerifyShort, Long: auditVerifyLong}
	return a.auditLeaf(cmd, "key anchor attestation run json", 1, 1, func(r *reader, g auditArgs) error {
		report, err := r.verify(g.dir)
		if err != nil || len(r.problems) > 0 {
			return err
		}
		if len(report.Problems) > 0 {
			r.code = report.Problems[0].Reason.ExitCode()
		}
		if r.flags.on("json", &r.problems) {
			return r.printJSON(report)
		}
		for _, p := range report.Problems {
			r.print(plan.Problem{What: auditProblem(p)})
		}
		_, err = io.WriteString(r.stdout, auditSummary(report))
		return err
	})
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// verify verifies with what the flags say is believed.
func (r *reader) verify(dir string) (audit.Report, error) {
	var o audit.VerifyOptions
	for _, text := range r.flags.many("key") {
		key, err := r.readKeyFlag(text)
		if err != nil {
			r.add(auditNoKey(text, err))
			continue
		}
		o.Keys = append(o.Keys, key)
	}
	for _, text := range r.flags.many("anchor") {
		msg, err := r.anchor(text).Recall()
		if err == nil && msg == nil {
			r.add(auditNoAnchor(text))
			continue
		}
		if err != nil {
			r.add(problemsOf(err)...)
			continue
		}
		o.Anchors = append(o.Anchors, msg)
	}
	for _, name := range r.flags.many("attestation") {
		msg, err := os.ReadFile(name)
		if err != nil {
			r.add(unreadable("attestation", name, err))
			continue
		}
		o.Attestations = append(o.Attestations, msg)
	}
	o.Run, _ = r.flags.one("run", &r.problems)
	if len(r.problems) > 0 {
		return audit.Report{}, nil
	}
	if len(o.Keys) == 0 {
		// the key that signs here, if any does, is better than the one in DIR
		if keys, err := r.keyDir(); err == nil {
			k, err := audit.ReadKey(keys)
			switch {
			case err == nil:
				o.Keys = []string{k.VerifierKey()}
			case !errors.Is(err, fs.ErrNotExist):
				return audit.Report{}, err
			}
		}
	}
	return audit.Verify(dir, o)
}

// readKeyFlag reads a key, or the file that holds it.
func (a *app) readKeyFlag(text string) (string, error) {
	if strings.Count(text, "+") >= 2 && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, ".") {
		return text, nil
	}
	file, err := a.abs(text)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

func (a *app) auditShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show [flags] DIR [RUN|host]", Short: auditShowShort, Long: auditShowLong}
	return a.auditLeaf(cmd, "json checkpoint", 1, 2, func(r *reader, g auditArgs) error {
		asJSON, checkpoint := r.flags.on("json", &r.problems), r.flags.on("checkpoint", &r.problems)
		out := newStream(r.stdout, nil)
		defer out.end("standard output")
		switch {
		case checkpoint:
			msg, err := audit.LastCheckpoint(g.dir, g.run)
			if err == nil {
				_, err = out.Write(msg)
			}
			return err
		case !g.given:
			return r.showRuns(out, g.dir, asJSON)
		}
		return audit.Records(g.dir, g.run, func(rec audit.Record) error {
			if asJSON {
				_, err := fmt.Fprintf(out, "%s\n", rec.Bytes)
				return err
			}
			_, err := io.WriteString(out, recordLine(rec)+"\n")
			return err
		})
	})
}

// showRuns lists the runs, each with its program and its end.
func (a *app) showRuns(out io.Writer, dir string, asJSON bool) error {
	runs, err := audit.Runs(dir)
	if err != nil {
		return err
	}
	list := make([]listedRun, 0, len(runs))
	for _, id := range runs {
		s, err := sumUp(dir, id, 0)
		if err != nil {
			return err
		}
		if asJSON {
			list = append(list, listRun(s))
		} else if _, err := io.WriteString(out, runLine(s)+"\n"); err != nil {
			return err
		}
	}
	if asJSON {
		return a.asJSON(list)
	}
	if len(runs) > 0 {
		return nil
	}
	_, err = os.Stat(filepath.Join(dir, hostLogFile)) // no run yet, or no log
	return err
}

// hostLogFile is in every directory of logs.
const hostLogFile = "host.log"

// hostKeyFile is beside every log, and in the directory of its private key.
const hostKeyFile = "host.key"

func (a *app) auditProve() *cobra.Command {
	cmd := &cobra.Command{Use: "prove DIR RUN|host SEQ | prove --since FILE DIR [RUN|host]", Short: auditProveShort, Long: auditProveLong}
	return a.auditLeaf(cmd, "since", 1, 3, func(r *reader, g auditArgs) error {
		since, given := r.flags.one("since", &r.problems)
		if given == (len(g.rest) > 0) || !given && !g.given {
			r.add(auditUse(cmd.CommandPath(), cmd.Use))
			return nil
		}
		if given {
			msg, err := os.ReadFile(since)
			if err != nil {
				r.add(unreadable("checkpoint", since, err))
				return nil
			}
			old, err := audit.ParseCheckpoint(msg)
			if err != nil {
				return fmt.Errorf("cannot use checkpoint %q: %w", since, err)
			}
			c, err := audit.ProveConsistency(g.dir, g.run, old)
			if err != nil {
				return err
			}
			return r.printJSON(c)
		}
		seq, err := strconv.ParseInt(g.rest[0], 10, 64)
		if err != nil || seq < 0 {
			r.add(auditNoNumber(g.rest[0]))
			return nil
		}
		p, err := audit.Prove(g.dir, g.run, seq)
		if err != nil {
			return err
		}
		return r.printJSON(p)
	})
}

func (a *app) auditTail() *cobra.Command {
	cmd := &cobra.Command{Use: "tail [flags] DIR [RUN|host]", Short: auditTailShort, Long: auditTailLong}
	return a.auditLeaf(cmd, "json", 1, 2, func(r *reader, g auditArgs) error {
		i := r.watchSignals(cmd.Context())
		defer i.stop()
		t := tail{dir: g.dir, out: newStream(r.stdout, func(err error) { i.cancel(lossOf(err)) }), raw: r.flags.on("json", &r.problems)}
		defer t.close()
		t.all = !g.given
		if g.given {
			if err := t.add(g.run); err != nil {
				return err
			}
		}
		for {
			over, err := t.step()
			if err != nil || over {
				return err
			}
			select {
			case <-i.ctx.Done():
				r.code = i.exitCode(exitOK)
				return nil
			case <-time.After(tailEvery):
			}
		}
	})
}

// tailEvery is how often tail looks for new records.
const tailEvery = 200 * time.Millisecond

// tail follows logs.
type tail struct {
	dir     string
	out     *stream
	raw     bool
	all     bool // follow every run, also those that begin later
	host    *audit.Reader
	readers map[string]*audit.Reader
	done    map[string]bool
}

func (t *tail) add(run string) error {
	r, err := audit.OpenReader(t.dir, run)
	if err != nil {
		return err
	}
	if t.readers == nil {
		t.readers, t.done = map[string]*audit.Reader{}, map[string]bool{}
	}
	t.readers[run] = r
	return nil
}

func (t *tail) close() {
	if t.host != nil {
		t.host.Close()
	}
	for _, r := range t.readers {
		r.Close()
	}
}

// step prints what is new. It is over when the one run that is followed is.
func (t *tail) step() (over bool, err error) {
	if t.all {
		if t.readers == nil {
			t.readers, t.done = map[string]*audit.Reader{}, map[string]bool{}
		}
		if err := t.find(); err != nil {
			return false, err
		}
	}
	for run, r := range t.readers {
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = t.print(run, rec)
			}
			if err != nil {
				return false, err
			}
			if rec.Event == "run.end" {
				r.Close()
				delete(t.readers, run)
				t.done[run] = true
				break
			}
		}
	}
	return !t.all && len(t.readers) == 0, nil
}

// find begins to follow the runs that are open, and those that the host log
// knows since.
func (t *tail) find() error {
	if t.host != nil {
		return t.begun(func(id string) error {
			if t.readers[id] != nil || t.done[id] {
				return nil
			}
			return t.add(id)
		})
	}
	var err error
	if t.host, err = audit.OpenReader(t.dir, ""); err != nil {
		return err
	}
	if err := t.begun(func(string) error { return nil }); err != nil {
		return err
	}
	open, err := audit.OpenRuns(t.dir)
	if err != nil {
		return err
	}
	for _, id := range open {
		if err := t.add(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// begun gives the runs that were opened since the last call.
func (t *tail) begun(see func(id string) error) error {
	for {
		rec, err := t.host.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := rec.Decode()
		if err != nil {
			continue // of a later version
		}
		if e, ok := e.(audit.RunOpened); ok {
			if err := see(e.Run); err != nil {
				return err
			}
		}
	}
}

func (t *tail) print(run string, rec audit.Record) (err error) {
	switch {
	case t.raw:
		_, err = fmt.Fprintf(t.out, "%s\n", rec.Bytes)
	case t.all:
		_, err = fmt.Fprintf(t.out, "%s %s\n", run, recordLine(rec))
	default:
		_, err = io.WriteString(t.out, recordLine(rec)+"\n")
	}
	return err
}

// keyDir is where the host key is: it belongs to the user, not to the log.
func (a *app) keyDir() (string, error) {
	if state, ok := a.getenv("XDG_STATE_HOME"); ok && filepath.IsAbs(state) {
		return filepath.Join(state, "isolate"), nil
	}
	home, ok := a.getenv("HOME")
	if !ok || !filepath.IsAbs(home) {
		return "", &plan.Refusal{Problems: []plan.Problem{{What: "cannot find the key of the audit log", Rule: "HOME is not set, or no path from /", Remedy: "name its directory with --audit-key"}}}
	}
	return filepath.Join(home, ".local", "state", "isolate"), nil
}
