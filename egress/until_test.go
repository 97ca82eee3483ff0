package egress

import (
	"strings"
	"testing"
	"time"
)

// A rule ends at a time that has a text: what is shown of it, logged and
// compared has one.
func TestUntilHasAText(t *testing.T) {
	west := time.FixedZone("", -12*60*60)
	for name, c := range map[string]struct {
		until time.Time
		year  string
	}{
		"the last year":         {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), ""},
		"past it":               {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "10000"},
		"past it in UTC":        {time.Date(9999, 12, 31, 23, 0, 0, 0, west), "10000"},
		"before the first year": {time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), "-1"},
	} {
		p := Policy{Mode: ModeRestricted, Rules: []Rule{{Name: "a.example"}, {Name: "b.example", Until: c.until}}}
		bad := p.Check()
		switch {
		case c.year == "" && len(bad) > 0:
			t.Errorf("%s: %v", name, bad)
		case c.year != "" && (len(bad) != 1 || bad[0].Field != "allow[1].until" || !strings.HasSuffix(bad[0].What, "the year "+c.year) || bad[0].Hint == ""):
			t.Errorf("%s: %v", name, bad)
		}
	}
}
