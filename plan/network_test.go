package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/rootfs"
)

func TestNetwork(t *testing.T) {
	f := machine(t)
	none := resolve(t, policy.Policy{}, f)
	p := policy.Policy{Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "a.example", Inject: []egress.Secret{{Header: "A", Variable: "TOKEN"}}}}}}
	pl := resolve(t, p, f)
	if pl.Net != "restricted" || !pl.HasNetwork() || !pl.Intercepts() || pl.Digest == none.Digest || pl.CellKey == none.CellKey {
		t.Errorf("got %s %+v", pl.Net, pl.NetPolicy)
	}
	if none.Net != "none" || none.HasNetwork() || none.Intercepts() {
		t.Errorf("without a network: %+v", none.NetPolicy)
	}
	other := p
	other.Net.Rules = []egress.Rule{{Name: "b.example"}}
	if resolve(t, other, f).Digest == pl.Digest {
		t.Error("another rule does not change the digest")
	}
	for _, want := range []string{"restricted", "allow https:a.example:443", "with A from $TOKEN"} {
		if !strings.Contains(pl.Text(), want) {
			t.Errorf("no %q in\n%s", want, pl.Text())
		}
	}
	files := func(pl Plan) (resolv, nsswitch string) {
		for _, op := range pl.View.Ops {
			switch op.Target {
			case rootfs.New + "/etc/resolv.conf":
				resolv = string(op.Content)
			case rootfs.New + "/etc/nsswitch.conf":
				nsswitch = string(op.Content)
			}
		}
		return resolv, nsswitch
	}
	if r, n := files(pl); !strings.Contains(r, "nameserver 198.18.0.1\n") || !strings.Contains(n, "hosts: files dns\n") {
		t.Errorf("got %q %q", r, n)
	}
	if r, n := files(none); r != "" || !strings.Contains(n, "hosts: files\n") {
		t.Errorf("without a network: %q %q", r, n)
	}
}

// Ports of this machine are a weakening: with consent by name only, and on record.
func TestHostPorts(t *testing.T) {
	f := machine(t)
	f.OwnPorts = []int{9464}
	p := policy.Policy{Net: egress.Policy{Mode: egress.ModeRestricted, HostPorts: []int{5432}}}
	var r *Refusal
	if _, err := Resolve(p, f); !errors.As(err, &r) || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Remedy, "--allow host-ports") {
		t.Errorf("without consent: %v", err)
	}
	p.Allow = []policy.Weakening{policy.HostPorts}
	pl := resolve(t, p, f)
	if !slices.Equal(pl.Weakenings, p.Allow) || !strings.Contains(pl.Text(), "allow port 5432 of this machine's loopback, at host.isolate.internal") {
		t.Errorf("got %v\n%s", pl.Weakenings, pl.Text())
	}
	without := p
	without.Net.HostPorts = nil
	if pl := resolve(t, without, f); len(pl.Weakenings) != 0 {
		t.Errorf("a consent that is not used is on record: %v", pl.Weakenings)
	}
	p.Net.HostPorts = []int{5432, 9464}
	if _, err := Resolve(p, f); !errors.As(err, &r) || !strings.Contains(r.Error(), "9464") || !strings.Contains(r.Error(), "isolate itself") {
		t.Errorf("a port of ours: %v", err)
	}
}

func TestNetworkIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		policy policy.Policy
		change func(*Facts)
		want   string
	}{
		"no device": {policy.Policy{Net: egress.Policy{Mode: egress.ModeFull}}, func(f *Facts) {
			f.Network = func() Problem { return Problem{What: "cannot give a network", Rule: "no device", Remedy: "get one"} }
		}, "no device"},
		"strict":                      {policy.Policy{Profile: policy.ProfileStrict, Net: egress.Policy{Mode: egress.ModeFull}}, nil, "strict"},
		"bad rule":                    {policy.Policy{Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "*.com"}}}}, nil, "*.com"},
		"an injected variable is set": {policy.Policy{Env: map[string]string{"TOKEN": "x"}, Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "a.example", Inject: []egress.Secret{{Header: "A", Variable: "TOKEN"}}}}}}, nil, `"TOKEN"`},
		"rules without mode":          {policy.Policy{Net: egress.Policy{Rules: []egress.Rule{{Name: "a.example"}}}}, nil, "mode none"},
	} {
		f := machine(t)
		if c.change != nil {
			c.change(&f)
		}
		_, err := Resolve(c.policy, f)
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Error(), c.want) || r.Problems[0].Remedy == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// nobody asks what nobody needs
	f := machine(t)
	f.Network = func() Problem { t.Error("asked"); return Problem{} }
	resolve(t, policy.Policy{}, f)
}
