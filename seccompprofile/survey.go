//go:build linux

package seccompprofile

import (
	"runtime"
	"strings"

	"github.com/isolate-run/isolate/policy"
)

// Survey is a profile for people: what the documentation and doctor print.
type Survey struct {
	Profile string `json:"profile"`
	// Default is the answer to every call that is in none of the lists.
	Default string `json:"default"`
	// Foreign is the answer to calls of other architectures (int 0x80, x32).
	Foreign string `json:"foreign"`
	// Allowed are the calls that succeed whatever their arguments are.
	Allowed []Entry `json:"allowed"`
	// Special are the calls with conditions or an answer of their own.
	Special []Entry `json:"special"`
	// Absent are calls left out on purpose; Default answers them.
	Absent []Entry `json:"absent"`
}

// Entry is calls that are treated alike.
type Entry struct {
	// Name of a group of Allowed; empty in the other lists.
	Name  string   `json:"name,omitempty"`
	Calls []string `json:"calls"`
	// Rules of Special in the order they are tried, the last one for all
	// other arguments: "arg1 & 0xffffffff == 0x5401: allow". A rule that
	// notifies names the answer of a filter that cannot.
	Rules []string `json:"rules,omitempty"`
	// Reason why.
	Reason string `json:"reason"`
}

// SurveyOf describes a profile as it is on this architecture.
func SurveyOf(p policy.Profile) Survey {
	t := tableOf(p, runtime.GOARCH)
	s := Survey{Profile: p.String(), Default: defaultAction.String(), Foreign: deadEnd.String()}
	for _, g := range groups {
		if calls := g.of(p); len(calls) > 0 && (g.arch == "" || g.arch == t.arch) {
			s.Allowed = append(s.Allowed, Entry{Name: g.name, Calls: calls, Reason: sentence(g.why)})
		}
	}
	for _, sp := range t.specials {
		s.Special = append(s.Special, Entry{Calls: strings.Fields(sp.calls), Rules: sp.lines(), Reason: sentence(sp.why)})
	}
	for _, a := range t.absent {
		s.Absent = append(s.Absent, Entry{Calls: strings.Fields(a.calls), Reason: sentence(a.why)})
	}
	return s
}

func (s special) lines() []string {
	var lines []string
	for _, r := range s.rules {
		conds := make([]string, len(r.when))
		for i, c := range r.when {
			conds[i] = c.String()
		}
		lines = append(lines, strings.Join(conds, " and ")+": "+r.do.String())
	}
	return append(lines, "otherwise: "+s.otherwise.String())
}

// sentence undoes the line breaks of a reason in the source.
func sentence(why string) string { return strings.Join(strings.Fields(why), " ") }
