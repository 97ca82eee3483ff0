package host

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Text is the report for people: sections of one line per check, with what is
// missing and the remedy below those that need them. It holds no control
// characters but newlines, whatever the machine's files contain.
func (r Report) Text() string {
	var b strings.Builder
	width := 0
	byID := map[string]Check{}
	for _, c := range r.Checks {
		byID[c.ID] = c
		width = max(width, len(c.ID))
	}
	for _, sec := range sections() {
		head := false
		for _, l := range sec.looks {
			c, ok := byID[l.entry.id]
			if !ok {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "%s\n", sec.name)
				head = true
			}
			c.text(&b, width)
		}
		if head {
			b.WriteByte('\n')
		}
	}
	b.WriteString(r.summary())
	return b.String()
}

// text writes a check in order as one line, and one that is not under a
// headline that says what cannot be done.
func (c Check) text(b *strings.Builder, width int) {
	if c.What == "" {
		fmt.Fprintf(b, "  %-4s  %-*s  %s: %s\n", c.Status, width, c.ID, plain(c.Title), plain(c.Evidence))
		return
	}
	fmt.Fprintf(b, "  %-4s  %-*s  %s\n", c.Status, width, c.ID, plain(c.What))
	for _, l := range []struct{ name, text string }{
		{"seen", c.Evidence}, {"missing", c.Missing}, {"remedy", c.Remedy},
	} {
		if l.text != "" {
			fmt.Fprintf(b, "  %-4s  %-*s    %-7s  %s\n", "", width, "", l.name, plain(l.text))
		}
	}
}

// summary counts the checks and says what that means for runs.
func (r Report) summary() string {
	var n [OK + 1]int
	var refusing []string
	for _, c := range r.Checks {
		n[c.Status]++
		if c.Refuses() {
			s := c.ID
			if c.Allow != "" {
				s += " (unless --allow " + c.Allow + ")"
			}
			refusing = append(refusing, s)
		}
	}
	s := fmt.Sprintf("%s: %d ok, %d info, %d warn, %d fail\n", r.Verdict(), n[OK], n[Info], n[Warn], n[Fail])
	s += fmt.Sprintf("control groups %s, identity %s, Linux %s\n", r.Cgroups.Mode, r.Identity, plain(r.Release))
	if len(refusing) > 0 {
		s += "runs are refused by: " + strings.Join(refusing, ", ") + "\n"
	}
	return s
}

// plain shows control characters, which names and labels of a machine may
// hold, as escapes.
func plain(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
