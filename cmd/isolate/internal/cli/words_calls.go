package cli

import (
	"fmt"
	"strings"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// What is said about calls of tools. The rules of words.go hold. Texts of tools
// are not trusted: they are escaped, bounded, and never begin a line.

const (
	// maxTroubles bounds the kinds of failures that are told one by one.
	maxTroubles = 5
	// troubleHead and troubleTail are how much of one is shown, in bytes: what
	// went wrong stands first, and the end of a trace says why.
	troubleHead, troubleTail = 160, 600
)

func nobodyToAsk(names []string) string {
	const most = 5
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return "there is no terminal to ask at, so each call of " + list + " will be denied; --ask names a command or a web service that decides"
}

// trouble is one kind of failure of one tool.
type trouble struct {
	tool string
	code bridge.Code
	n    int
	last string // detail for people; empty if the program knows all there is
	ran  bool
}

// troubles says which calls did not give a result, and what of it the program
// was not told.
func troubles(c *isolate.Calls) []string {
	if c == nil {
		return nil
	}
	var all []*trouble
	find := func(r bridge.Record) *trouble {
		for _, t := range all {
			if t.tool == r.Tool && t.code == r.Code {
				return t
			}
		}
		all = append(all, &trouble{tool: r.Tool, code: r.Code, ran: r.State == bridge.Done})
		return all[len(all)-1]
	}
	for _, r := range c.Calls {
		if r.State != bridge.Done && r.State != bridge.Refused || r.Code == "" || r.Code == bridge.CodeClosed {
			continue
		}
		t := find(r)
		t.n++
		t.last = r.Detail
	}
	var lines []string
	for i, t := range all {
		if i == maxTroubles {
			lines = append(lines, "isolate: more went wrong with tools; --meta FILE has all under \"calls\"")
			break
		}
		lines = append(lines, t.lines()...)
	}
	return lines
}

func (t *trouble) lines() []string {
	verb := "was refused"
	if t.ran {
		verb = "failed"
	}
	what := fmt.Sprintf("a call of %s %s", t.name(), verb)
	if t.n > 1 {
		what = fmt.Sprintf("%d calls of %s %s", t.n, t.name(), strings.Replace(verb, "was", "were", 1))
	}
	lines := []string{"isolate: " + what + ": " + string(t.code)}
	if t.last == "" {
		return lines
	}
	text := strings.ToValidUTF8(t.last, "\uFFFD")
	if len(text) > troubleHead+troubleTail {
		text = strings.ToValidUTF8(text[:troubleHead], "") + " … " + strings.ToValidUTF8(text[len(text)-troubleTail:], "")
	}
	for line := range strings.Lines(plaintext.Visible(strings.ReplaceAll(text, "\t", "    "))) {
		if line = strings.TrimRight(line, "\n "); line != "" {
			lines = append(lines, "    "+line)
		}
	}
	return lines
}

// name is what the program called, which may be no tool.
func (t *trouble) name() string {
	if bridge.CheckName(t.tool) == nil {
		return t.tool
	}
	return "no tool"
}
