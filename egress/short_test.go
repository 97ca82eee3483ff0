package egress

import (
	"errors"
	"strings"
	"testing"
)

// What is wrong with a short form is said once, with what to write for it.
func TestShortProblems(t *testing.T) {
	for s, want := range map[string]Problem{
		"allow:10.1.2.0/24":            {What: `cannot allow "10.1.2.0/24": it is a range`, Hint: `write cidr = "10.1.2.0/24", with ports and protocol, in a policy file`},
		"allow:tcp://10.1.2.0/24:5432": {What: `cannot allow "tcp://10.1.2.0/24:5432": it is a range`, Hint: `write cidr = "10.1.2.0/24", with ports and protocol, in a policy file`},
		"allow:127.0.0.1:8765":         {What: `cannot allow "127.0.0.1:8765": no rule opens the loopback of this machine`, Hint: "grant the service by its port, --net host:8765 or host-ports = [8765], or give the program a tool that asks it"},
		"allow:a.example,https://x:y":  {What: `cannot allow "https://x:y": "y" is not a port`, Hint: "write [PROTOCOL://]HOST[:PORT]"},
		"allow:*.github.io":            {What: `cannot allow "*.github.io": anybody can have a name below "github.io" (public suffix list); name one, or set public-suffix = true in the rule of a policy file`, Hint: `write a host name, "*.example.org" or "**.example.org"`},
		"pypi.org":                     {What: `cannot read network "pypi.org": it is none, restricted, full, allow:NAME[:PORT],… or host:PORT,…`, Hint: "write allow:pypi.org"},
		"host":                         {What: `cannot read network "host": it is none, restricted, full, allow:NAME[:PORT],… or host:PORT,…`, Hint: "write full for every public address, or allow:NAME; the host's own network is never shared"},
		"some thing":                   {What: `cannot read network "some thing": it is none, restricted, full, allow:NAME[:PORT],… or host:PORT,…`, Hint: "for example allow:pypi.org,files.pythonhosted.org"},
		"host:x":                       {What: `cannot grant "x" of this machine: it is not a port`, Hint: "for example host:5432"},
	} {
		_, err := ParseShort(s)
		var got Problem
		if !errors.As(err, &got) || got.What != want.What || got.Hint != want.Hint {
			t.Errorf("%s: got %q, %q", s, got.What, got.Hint)
		}
		if strings.Contains(got.What, want.Hint) {
			t.Errorf("%s: the hint is told twice", s)
		}
	}
}
