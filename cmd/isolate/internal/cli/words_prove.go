package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/isolate-run/isolate/cmd/isolate/internal/prove"
)

// What is said of the demonstration. The rules of words.go hold.

const (
	proveShort   = "Show on this machine that nothing gets out of a sandbox"
	proveJSON    = "print the report as JSON"
	attemptShort = "Try what standard input lists (used by prove)"
)

const proveLong = `prove runs a program that tries to get out: outside, where it reaches listeners
that isolate holds for it on loopback, and in a sandbox, where it must not. There
it also tries TCP, UDP, DNS and ICMP to addresses that are nobody's, the metadata
service of clouds, other kinds of sockets, io_uring, namespaces and mounts, and
it calls a tool. Every refusal has to be in a log that then verifies.

Nothing is sent to anybody: if a listener is reached from the sandbox, the other
addresses are not tried.

Exit codes: 0 all held; 1 something got out, was refused in another way than it
should, or is not in the log; 125 it could not be tried.`

// proveText is the report as a table.
func proveText(r prove.Report) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ATTEMPT\tTO\tOUTSIDE\tIN THE SANDBOX\tRECORDED\t")
	for _, row := range r.Rows {
		verdict := ""
		if row.Verdict != prove.Held {
			verdict = fmt.Sprintf("%s: %s", strings.ToUpper(string(row.Verdict)), row.Why)
			if row.Verdict == prove.Absent {
				verdict = row.Why
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", row.Attempt, shortName(row.To), orDash(row.Outside), proveAnswer(row), proveRecord(row), verdict)
	}
	t.Flush()
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	out.WriteString("\n" + proveSummary(r))
	return out.String()
}

// shortName cuts the random end of the abstract socket's name.
func shortName(to string) string {
	if strings.HasPrefix(to, "@") && len(to) > 24 {
		return to[:21] + "…"
	}
	return to
}

func proveAnswer(row prove.Row) string {
	switch {
	case row.Call == "":
		return "-"
	case row.Inside == "" && row.Verdict == prove.Held:
		return "answered"
	case row.Inside == "":
		return row.Call + ": succeeded"
	}
	return row.Call + ": " + row.Inside
}

func proveRecord(row prove.Row) string {
	if len(row.Records) == 0 {
		return "-"
	}
	numbers := make([]string, len(row.Records))
	for i, n := range row.Records {
		numbers[i] = fmt.Sprint(n)
	}
	return row.Event + " (" + strings.Join(numbers, ", ") + ")"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func proveSummary(r prove.Report) string {
	var b strings.Builder
	held := 0
	for _, row := range r.Rows {
		if row.Verdict == prove.Held || row.Verdict == prove.Absent {
			held++
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&b, "PROBLEM: "+p)
	}
	word := "all held"
	if !r.Held {
		word = "NOT HELD"
	}
	fmt.Fprintf(&b, "%s: %d of %d attempts, as user %d, in %s\n", word, held, len(r.Rows), r.UID, r.Took.Round(10*time.Millisecond))
	if r.Log != nil {
		fmt.Fprintf(&b, "log: %d records, %d refused calls, root %s\n", r.Log.Size, r.Refused, r.Log.Root)
	}
	fmt.Fprintf(&b, "plan: %s\n", r.Plan)
	if len(r.Weakenings) > 0 {
		fmt.Fprintf(&b, "done without: %v (isolate doctor says why)\n", r.Weakenings)
	}
	return b.String()
}
