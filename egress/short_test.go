package egress

import (
	"strings"
	"testing"
)

// A range has no short form, which is said with what to write.
func TestShortRuleOfARange(t *testing.T) {
	for _, s := range []string{"10.1.2.0/24", "tcp://10.1.2.0/24:5432", "tcp://10.1.2.0/24"} {
		if _, err := ParseShortRule(s); err == nil || !strings.Contains(err.Error(), `cidr = "10.1.2.0/24"`) {
			t.Errorf("%s: got %v", s, err)
		}
	}
}
