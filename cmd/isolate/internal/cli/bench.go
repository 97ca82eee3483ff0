package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/bench/compare"
	"github.com/isolate-run/isolate/bench/peers"
	"github.com/isolate-run/isolate/bench/result"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// benchFlags are the flags of bench, in the order of the help text.
func benchFlags() []flagSpec {
	return []flagSpec{
		{name: "out", kind: kindDir},
		{name: "rounds", kind: kindCount},
		{name: "only", kind: "WORKLOAD,..."},
		{name: "beside", kind: "CONTENDER,..."},
		{name: "quick", kind: kindSwitch, alone: "true"},
	}
}

// Files of the report.
const (
	benchJSON     = "bench.json"
	benchMarkdown = "bench.md"
	benchSVG      = "bench.svg"
)

// quickRounds are those of --quick.
const quickRounds = 20

// benchCommand measures isolate beside other programs.
func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench [flags]", Short: benchShort, Long: benchLong, DisableFlagsInUseLine: true}
	f := addFlags(cmd, benchFlags())
	cmd.Flags().Lookup("out").Usage = benchOut // exec's is another
	return a.plain(cmd, func() error {
		o, out, problems := a.readBench(f)
		if len(problems) > 0 {
			a.code = a.refuse(problems...)
			return nil
		}
		i := a.watchSignals(cmd.Context())
		defer i.stop()
		switch err := a.bench(i.ctx, o, out); {
		case i.signal() != 0:
			a.code = exitSignal + int(i.signal())
		case err != nil:
			a.code = a.refuse(problemsOf(err)...)
		}
		return nil
	})
}

// readBench reads the flags; out is the directory for the report, or empty.
func (a *app) readBench(f flags) (o compare.Options, out string, problems []plan.Problem) {
	r := &reader{app: a, flags: f}
	if f.on("quick", &r.problems) {
		o.Effort, o.Rounds = compare.Quick, quickRounds
	}
	read(r, "rounds", &o.Rounds, policy.ParseCount)
	read(r, "only", &o.Only, namesOf("workload", compare.Workloads()))
	read(r, "beside", &o.Contenders, namesOf("contender", compare.Contenders()))
	read(r, "out", &out, r.dirOf)
	return o, out, r.problems
}

// namesOf reads a list of names of those there are.
func namesOf(kind string, have []string) func(string) ([]string, error) {
	return func(text string) ([]string, error) {
		names := strings.Split(text, ",")
		for _, n := range names {
			if !slices.Contains(have, n) {
				return nil, noSuchName(kind, n, have)
			}
		}
		return names, nil
	}
}

func (a *app) bench(ctx context.Context, o compare.Options, out string) error {
	// made before anything is measured: the measuring takes minutes
	if out != "" {
		if err := os.MkdirAll(out, 0o777); err != nil {
			return fmt.Errorf("cannot make a directory for the report: %w", err)
		}
	}
	// what a program in a sandbox must not see of our environment
	if err := os.Setenv(peers.Marker, "1"); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	o.Executable, o.Environ = exe, a.environ()
	o.Progress = func(what string) { _, _ = io.WriteString(a.stderr, measuring(what)) }
	rep, err := compare.Run(ctx, o)
	if err != nil {
		return err
	}
	rep.Date, rep.Version, rep.Command = time.Now(), thisRevision(), append([]string{"isolate"}, a.line[min(1, len(a.line)):]...)
	if out != "" {
		if err := writeBench(rep, out); err != nil {
			return err
		}
	}
	_, err = io.WriteString(a.stdout, rep.Markdown())
	return err
}

func writeBench(rep result.Report, dir string) error {
	document, err := rep.JSON()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{benchJSON: string(document), benchMarkdown: rep.Markdown(), benchSVG: rep.SVG()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			return fmt.Errorf("cannot write the report: %w", err)
		}
	}
	return nil
}
