package cli

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// The page needs nothing but itself. Everything in it that a program may have
// chosen is escaped by html/template, which knows what stands where.
//
//go:embed audit_report.html
var reportPage string

// What is shown in full.
const (
	reportRuns  = 200
	reportLines = 1000
)

// reportData is what the page shows.
type reportData struct {
	Dir      string
	Made     time.Time
	Verified audit.Report
	Runs     []runSummary
	States   map[string]string
	Omitted  int
}

func (a *app) auditReport() *cobra.Command {
	cmd := &cobra.Command{Use: "report [flags] DIR [RUN]", Short: auditReportShort, Long: auditReportLong}
	return a.auditLeaf(cmd, "key anchor", 1, 2, func(r *reader, g auditArgs) error {
		verified, err := r.verify(g.dir)
		if err != nil || len(r.problems) > 0 {
			return err
		}
		d := reportData{Dir: g.dir, Made: time.Now(), Verified: verified, States: map[string]string{}}
		for _, s := range verified.Runs {
			d.States[s.ID] = s.State
		}
		runs := []string{g.run}
		if g.run == "" {
			if runs, err = audit.Runs(g.dir); err != nil {
				return err
			}
		}
		slices.Reverse(runs) // the newest first
		d.Omitted = max(0, len(runs)-reportRuns)
		for _, id := range runs[:len(runs)-d.Omitted] {
			s, err := sumUp(g.dir, id, reportLines)
			if err != nil && s.Records == 0 && g.given {
				return err
			}
			d.Runs = append(d.Runs, s) // as far as it can be read: verification says what is wrong
		}
		if len(verified.Problems) > 0 {
			r.code = verified.Problems[0].Reason.ExitCode()
		}
		return writeReport(r.stdout, d)
	})
}

func writeReport(w io.Writer, d reportData) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"ranked": ranked,
		"round":  func(d time.Duration) string { return d.Round(time.Microsecond).String() },
		"millis": func(n int64) string { return (time.Duration(n) * time.Millisecond).String() },
		"bytes":  sizeText,
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := page.Execute(&b, d); err != nil {
		return err
	}
	// nor may a program say anything to a terminal on which the page is looked at
	_, err = io.WriteString(w, plaintext.Clean(b.String(), b.Len()))
	return err
}

// sizeText writes a size in the largest unit that leaves it whole.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n > 0 && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// counted is a name with how often it occurred.
type counted struct {
	Name  string
	Count int64
}

// ranked sorts counts, the largest first.
func ranked(m map[string]int64) []counted {
	var list []counted
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, counted{name, m[name]})
	}
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(b.Count, a.Count) })
	return list
}
