package plan

import (
	"errors"
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

func TestNetworkIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		policy policy.Policy
		change func(*Facts)
		want   string
	}{
		"no device": {policy.Policy{Net: egress.Policy{Mode: egress.ModeFull}}, func(f *Facts) {
			f.Network = func() Problem { return Problem{What: "cannot give a network", Rule: "no device", Remedy: "get one"} }
		}, "no device"},
		"strict":             {policy.Policy{Profile: policy.ProfileStrict, Net: egress.Policy{Mode: egress.ModeFull}}, nil, "strict"},
		"bad rule":           {policy.Policy{Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "*.com"}}}}, nil, "*.com"},
		"rules without mode": {policy.Policy{Net: egress.Policy{Rules: []egress.Rule{{Name: "a.example"}}}}, nil, "mode none"},
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
