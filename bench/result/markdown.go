package result

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/isolate-run/isolate/internal/plaintext"
)

// Markdown is the report as tables, aligned so that they can be read as they
// are.
func (r Report) Markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "isolate %s, %s, as user %d on %d × %s, %d GiB, Linux %s\n\n", cell(r.Version), r.Date.UTC().Format("2006-01-02 15:04"), m.UID, m.Processors, cell(m.Processor), m.Memory>>30, cell(m.Kernel))
	fmt.Fprintf(&b, "    %s\n", cell(strings.Join(r.Command, " ")))
	for _, l := range r.Latencies {
		b.WriteString(l.markdown())
	}
	if r.Throughput != nil {
		b.WriteString(r.Throughput.markdown())
	}
	if r.Growth != nil {
		b.WriteString(r.Growth.Markdown())
	}
	b.WriteString(r.layers())
	if len(r.Weakenings) > 0 {
		fmt.Fprintf(&b, "\nisolate did without: %s (isolate doctor says why)\n", strings.Join(r.Weakenings, ", "))
	}
	return b.String()
}

func (l Latency) markdown() string {
	head := fmt.Sprintf("\n## %s: `%s`\n\n", l.Workload, l.Runs)
	if l.Missing != "" {
		return head + cell(l.Missing) + "\n"
	}
	t := table{{"start to end, " + count(l.Rounds, "round"), "p50", "p99", "× " + Bare, "× " + Peer, ""}}
	below := ""
	for _, r := range l.Rows {
		if r.Why == NotChosen {
			continue
		}
		if r.Why != "" {
			t = append(t, []string{r.Contender, "-", "-", "-", "-", r.Why})
			continue
		}
		t = append(t, []string{r.Contender, duration(r.P50), duration(r.P99), ratio(r.ToBare), ratio(r.ToPeer), ""})
		below += bars(r.Contender, r.Bars)
	}
	return head + t.String() + below
}

func (t Throughput) markdown() string {
	head := []string{fmt.Sprintf("runs a second, median of %s of %s", count(t.Blocks, "block"), t.Block)}
	for _, n := range t.Workers {
		head = append(head, count(n, "worker"))
	}
	out, below := table{append(head, "")}, ""
	for _, r := range t.Rows {
		if r.Why == NotChosen {
			continue
		}
		row := []string{r.Contender}
		for i := range t.Workers {
			if i < len(r.PerSecond) {
				row = append(row, fmt.Sprintf("%.0f", r.PerSecond[i]))
			} else {
				row = append(row, "-")
			}
		}
		out = append(out, append(row, r.Why))
		below += bars(r.Contender, r.Bars)
	}
	return fmt.Sprintf("\n## workers: `%s`\n\n", t.Runs) + out.String() + below
}

// Markdown is the growth as a table.
func (g Growth) Markdown() string {
	const head = "\n## kept: one more sandbox, a program in it, and its end\n\n"
	if g.Why != "" && len(g.Levels) == 0 {
		return head + cell(g.Why) + "\n"
	}
	t := table{{"kept, " + count(g.Rounds, "round"), "p50", "p99", "× the first", "memory each", "descriptors"}}
	for _, l := range g.Levels {
		each := "-"
		if l.MemoryEach > 0 {
			each = fmt.Sprintf("%d KiB", l.MemoryEach>>10)
		}
		t = append(t, []string{fmt.Sprint(l.Kept), duration(l.P50), duration(l.P99), ratio(l.ToFirst), each, fmt.Sprint(l.Descriptors)})
	}
	out := head + t.String()
	if g.Why != "" {
		out += "\n" + cell(g.Why) + "\n"
	}
	return out + bars("isolate", g.Bars)
}

// layers are which layers each contender had, a column each.
func (r Report) layers() string {
	head := []string{"layers"}
	var who []Contender
	for _, c := range r.Contenders {
		if c.Missing == "" {
			who, head = append(who, c), append(head, c.Name)
		}
	}
	t := table{head}
	for _, l := range Layers {
		row := []string{string(l)}
		for _, c := range who {
			switch {
			case c.Unseen != "":
				row = append(row, "?")
			case slices.Contains(c.Seen, l):
				row = append(row, "yes")
			default:
				row = append(row, "-")
			}
		}
		t = append(t, row)
	}
	var b strings.Builder
	b.WriteString("\n## Layers, as a program saw them\n\n" + t.String() + "\n")
	var others []string
	for _, c := range r.Contenders {
		if c.Missing == NotChosen {
			others = append(others, cell(c.Name))
			continue
		}
		what := c.Is
		if c.Version != "" {
			what += " (" + c.Version + ")"
		}
		for _, more := range []struct{ intro, text string }{{"not seen from inside: ", strings.Join(c.Also, ", ")}, {"what a program saw is unknown: ", c.Unseen}, {"takes no part: ", strings.TrimSuffix(c.Missing+": "+c.Why, ": ")}} {
			if more.text != "" {
				what += "; " + more.intro + more.text
			}
		}
		fmt.Fprintf(&b, "- %s: %s\n", cell(c.Name), cell(what))
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, "- %s: %s\n", NotChosen, strings.Join(others, ", "))
	}
	return b.String()
}

// table is rows of cells, the first row being the head.
type table [][]string

func (t table) String() string {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i := range row {
			row[i] = cell(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for n, row := range t {
		for i, text := range row {
			b.WriteString("| " + text + strings.Repeat(" ", width[i]-utf8.RuneCountInString(text)+1))
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for _, w := range width {
			b.WriteString("|" + strings.Repeat("-", w+2))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// maxCell bounds a text in a table, in bytes.
const maxCell = 300

// cell is text as it may stand in one line of a document: it may come from
// another program.
func cell(text string) string {
	text = plaintext.Visible(strings.Join(strings.Fields(text), " "))
	text = plaintext.Clean(text, maxCell)
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'").Replace(text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func duration(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// bars are paragraphs, one for each.
func bars(contender string, list []Bar) string {
	var b strings.Builder
	for _, bar := range list {
		verdict := "met"
		if !bar.Met {
			verdict = "**missed**"
		}
		fmt.Fprintf(&b, "\nBar: %s %s: %.2f, %s\n", contender, bar.Text, bar.Got, verdict)
	}
	return b.String()
}
