package egress

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type cuts chan Reason

func (c cuts) cut(r Reason) { c <- r }

func (c cuts) want(t *testing.T, want Reason) {
	t.Helper()
	select {
	case got := <-c:
		if got != want {
			t.Errorf("cut for %q, want %q", got, want)
		}
	case <-time.After(60 * time.Second):
		t.Errorf("not cut, want %q", want)
	}
}

func (c cuts) none(t *testing.T) {
	t.Helper()
	select {
	case got := <-c:
		t.Errorf("cut for %q", got)
	default:
	}
}

func compile(t *testing.T, p Policy, number uint64) *Generation {
	t.Helper()
	g, err := Compile(p, Floor{}, number, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestJudgeDeniesBeforeSetAndAfterStop(t *testing.T) {
	j := NewJudge(0, nil)
	if _, d := j.Open(flow(t, "a.example", 443), nil); d.Reason != ReasonStopped {
		t.Errorf("before: %+v", d)
	}
	j.Set(compile(t, restricted(Rule{Name: "a.example"}), 1))
	c := make(cuts, 1)
	if _, d := j.Open(flow(t, "a.example", 443), c.cut); !d.Allowed() {
		t.Fatalf("%+v", d)
	}
	j.Stop()
	c.want(t, ReasonStopped)
	if _, d := j.Open(flow(t, "a.example", 443), nil); d.Reason != ReasonStopped {
		t.Errorf("after: %+v", d)
	}
}

// D 61
func TestExpiryCutsLivingFlows(t *testing.T) {
	j := NewJudge(0, nil)
	j.Set(compile(t, restricted(Rule{Name: "a.example", For: 2 * time.Second}, Rule{Name: "b.example"}), 1))
	a, b := make(cuts, 1), make(cuts, 1)
	j.Open(flow(t, "a.example", 443), a.cut)
	j.Open(flow(t, "b.example", 443), b.cut)
	a.want(t, ReasonRuleExpired)
	b.none(t)
	if _, d := j.Open(flow(t, "a.example", 443), nil); d.Reason != ReasonRuleExpired {
		t.Errorf("a new flow: %+v", d)
	}
}

// D 62
func TestPolicyChange(t *testing.T) {
	j := NewJudge(0, nil)
	rule := Rule{Name: "a.example"}
	j.Set(compile(t, restricted(rule), 1))
	c := make(cuts, 1)
	j.Open(flow(t, "a.example", 443), c.cut)
	j.Set(compile(t, restricted(rule, Rule{Name: "b.example"}), 2))
	c.none(t)
	j.Set(compile(t, restricted(Rule{Name: "b.example"}), 3))
	c.want(t, ReasonPolicyRevoked)
	if n := j.Living(); n != 0 {
		t.Errorf("%d flows live", n)
	}
}

// D 63
func TestUses(t *testing.T) {
	j := NewJudge(2, nil)
	j.Set(compile(t, restricted(Rule{Name: "a.example", MaxFlows: 1}, Rule{Name: "b.example", MaxBytesOut: 10}), 1))
	l, d := j.Open(flow(t, "a.example", 443), func(Reason) {})
	if !d.Allowed() {
		t.Fatal(d)
	}
	l.Close()
	if _, d := j.Open(flow(t, "a.example", 443), nil); d.Reason != ReasonRuleExhausted {
		t.Errorf("second flow: %+v", d)
	}
	b, _ := j.Open(flow(t, "b.example", 443), func(Reason) {})
	if !b.Sent(10) || b.Sent(1) {
		t.Error("bytes are not counted")
	}
	j.Open(flow(t, "b.example", 443), nil)
	if _, d := j.Open(flow(t, "b.example", 443), nil); d.Reason != ReasonRuleExhausted {
		t.Errorf("after the bytes: %+v", d)
	}
}

// The end of a grant, or of another one, moves no use from rule to rule,
// whatever order rules of the same text have in the policy.
func TestUsesStayWithTheirRule(t *testing.T) {
	base := Rule{Name: "a.example", MaxFlows: 3}
	first, second := base, base
	first.MaxFlows, first.Until = 1, start.Add(time.Minute)
	second.MaxFlows, second.Until = 2, start.Add(time.Hour)
	now := start
	j := NewJudge(0, func() time.Time { return now })
	opened := func(want int) {
		t.Helper()
		for n := range want + 1 {
			if _, d := j.Open(flow(t, "a.example", 443), nil); d.Allowed() != (n < want) {
				t.Fatalf("flow %d of %d: %+v", n+1, want, d)
			}
		}
	}
	j.Set(compile(t, restricted(first, second, base), 1))
	opened(1 + 2 + 3)
	now = now.Add(2 * time.Minute)
	j.Set(compile(t, restricted(second, base), 2))
	opened(0)
	j.Set(compile(t, restricted(base), 3))
	opened(0)
	third := base
	third.MaxFlows, third.Until = 1, start.Add(2*time.Hour)
	j.Set(compile(t, restricted(base, third), 4))
	opened(1)
}

func TestLimitFlows(t *testing.T) {
	j := NewJudge(2, nil)
	j.Set(compile(t, restricted(Rule{Name: "a.example"}), 1))
	first, _ := j.Open(flow(t, "a.example", 443), nil)
	j.Open(flow(t, "a.example", 443), nil)
	if _, d := j.Open(flow(t, "a.example", 443), nil); d.Reason != ReasonLimitFlows {
		t.Errorf("%+v", d)
	}
	first.Close()
	if _, d := j.Open(flow(t, "a.example", 443), nil); !d.Allowed() {
		t.Errorf("%+v", d)
	}
}

func TestRefineEndsTheFlow(t *testing.T) {
	j := NewJudge(0, nil)
	j.Set(compile(t, restricted(Rule{Name: "a.example"}), 1))
	l, _ := j.Open(flow(t, "a.example", 443), nil)
	if d := l.Refine(with(flow(t, "a.example", 443), hello("b.example"))); d.Reason != ReasonSNIMismatch {
		t.Errorf("%+v", d)
	}
	if j.Living() != 0 {
		t.Error("a refused flow lives")
	}
}

func TestShort(t *testing.T) {
	p, err := ParseShort("allow:a.example,http://b.example,c.example:8443,tcp://d.example:5432,9.9.9.9:853,*.e.example,f.example:22")
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{{Name: "a.example"}, {Name: "b.example", Protocol: HTTP}, {Name: "c.example", Ports: []int{8443}},
		{Name: "d.example", Protocol: TCP, Ports: []int{5432}}, {CIDR: "9.9.9.9/32", Protocol: TCP, Ports: []int{853}}, {Name: "*.e.example"},
		{Name: "f.example", Ports: []int{22}, Protocol: SSH}}
	if p.Mode != ModeRestricted || !reflect.DeepEqual(p.Rules, want) {
		t.Errorf("got %+v", p)
	}
	for _, s := range []string{"", "some", "allow:", "allow:a.example,", "allow:a.example:0", "allow:a.example:x", "allow:gopher://a.example", "allow:*", "allow:9.9.9.9", "allow:127.1",
		"allow:localhost:80", "allow:x.localhost", "allow:*.localhost", "allow:127.0.0.1:80"} {
		if _, err := ParseShort(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestPolicyJSON(t *testing.T) {
	p := restricted(Rule{Name: "a.example", Protocol: HTTP, For: time.Minute}, Rule{Name: "b.example", TLS: Intercept})
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q Policy
	if err := json.Unmarshal(b, &q); err != nil || !reflect.DeepEqual(p, q) {
		t.Errorf("%s became %+v, %v", b, q, err)
	}
}

func TestPresetsHold(t *testing.T) {
	for _, name := range Presets() {
		r, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if bad := restricted(r...).Check(); bad != nil {
			t.Errorf("%s: %v", name, bad)
		}
	}
	if _, err := Preset("x"); err == nil || !strings.Contains(err.Error(), "pip") {
		t.Errorf("got %v, want the names there are", err)
	}
}

// D 53
func TestGoPreset(t *testing.T) {
	r, _ := Preset("go")
	g := compile(t, restricted(r...), 1)
	f := flow(t, "storage.googleapis.com", 443)
	for _, c := range []struct {
		method, path string
		want         Reason
	}{
		{"GET", "/proxy-golang-org-prod/x.zip", ""},
		{"GET", "/other/x.zip", ReasonPathNotAllowed},
		{"PUT", "/proxy-golang-org-prod/x.zip", ReasonMethodNotAllowed},
	} {
		if d := g.DecideRequest(time.Now(), f, Request{Method: c.method, Host: "storage.googleapis.com", Path: c.path}); d.Reason != c.want {
			t.Errorf("%s %s: %+v", c.method, c.path, d)
		}
	}
}

func TestExplain(t *testing.T) {
	p, _ := ParseShort("allow:a.example")
	for target, want := range map[string]string{
		"a.example:443": "allowed by https:a.example:443", "https://a.example/x": "allowed", "b.example": "to allow it: --net allow:b.example",
		"169.254.169.254:80": "metadata", "a.example:22": "port_not_allowed",
		"10.0.0.1:80": "to allow it: --net allow:10.0.0.1:80\n", "localhost:80": "--net host:80 grants this port", "host.isolate.internal:8000": "to allow it: --net host:8000\n",
	} {
		explained(t, p, target, want)
	}
	for _, target := range []string{"", "a.example:x", "a.example:0", "GET ", "GET a b"} {
		if f, err := ParseTarget(target); err == nil {
			t.Errorf("%q is %+v", target, f)
		}
	}
}

// Which private addresses a name may lead to is said as the rule says it.
func TestExplainPrivate(t *testing.T) {
	p := Policy{Mode: ModeRestricted, Rules: []Rule{{Name: "cache.example", Protocol: HTTP, Ports: []int{3141}, Private: []string{"10.0.0.0/8"}}, {Name: "a.example"}}}
	explained(t, p, "cache.example:3141", "\na private address is refused when the name leads to one that is not in 10.0.0.0/8; one of this machine")
	explained(t, p, "a.example", "\nan address that is private, of this machine")
}

// A URL whose path a rule does not name is not told to be allowed because its
// host is.
func TestExplainRequests(t *testing.T) {
	p := Policy{Mode: ModeRestricted, Rules: []Rule{{Name: "api.example", Methods: []string{"GET", "POST"}, Paths: []string{"/v1/**"}}, {Name: "plain.example", Protocol: HTTP}, {Name: "tls.example"}}}
	for target, want := range map[string]string{
		"api.example":                          "every request is judged: give a URL to ask about one\n",
		"https://api.example":                  "every request is judged: give a URL to ask about one\n",
		"https://api.example/v1/x?y=/v2":       "GET api.example:443/v1/x: allowed by https:api.example:443",
		"https://api.example/v2/x":             "GET api.example:443/v2/x: denied: the network policy names this host, but not this path (path_not_allowed)",
		"https://api.example/":                 "path_not_allowed",
		"https://api.example/v1/../x":          "path_ambiguous",
		"POST https://api.example/v1/x":        "POST api.example:443/v1/x: allowed",
		"DELETE https://api.example/v1/x":      "method_not_allowed",
		"DELETE https://api.example/v1/\x1b[m": "DELETE api.example:443/v1/\\x1b[m: denied",
		"http://plain.example/x":               "GET plain.example:80/x: allowed by http:plain.example:80",
		"https://tls.example/x":                "\nTLS passes through; it must name tls.example, and no path is looked at\n",
	} {
		explained(t, p, target, want)
	}
}

func explained(t *testing.T, p Policy, target, want string) {
	t.Helper()
	f, err := ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Explain(p, f)
	if err != nil || !strings.Contains(s, want) {
		t.Errorf("%s: got %q, %v; want %q in it", target, s, err, want)
	}
}

func TestSummary(t *testing.T) {
	var s Summary
	for _, e := range []Event{
		{Type: EventOpen, Name: "a.example"}, {Type: EventClose, Name: "a.example", BytesIn: 5, BytesOut: 3},
		{Type: EventDNS, Name: "b.example", Verdict: Refuse, Reason: ReasonNameNotAllowed}, {Type: EventDNS, Name: "b.example", Verdict: Refuse, Reason: ReasonNameNotAllowed},
		{Type: EventDNS, Name: "a.example", Verdict: Allow}, {Type: EventFlood, Name: "c.example", Reason: ReasonLimitRate, Count: 100},
	} {
		s.Add(e)
	}
	if s.Flows != 1 || s.Denied != 102 || s.BytesIn != 5 || s.BytesOut != 3 || len(s.Denials) != 2 || s.Denials[0].Count != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestExempt(t *testing.T) {
	for cidr, good := range map[string]bool{"198.18.0.0/16": true, "fd00::/8": true, "127.0.0.0/8": false, "0.0.0.0/0": false, "10.0.0.0/8": false, "169.254.0.0/16": false, "198.18.0.0/14": false, "x": false} {
		p := Policy{Mode: ModeFull, Exempt: []string{cidr}}
		if bad := p.Check(); (len(bad) == 0) != good {
			t.Errorf("%s: %v", cidr, bad)
		}
	}
}

// A range that no rule opens is an error when the policy is read, not a rule of
// which nothing comes.
func TestClosedRanges(t *testing.T) {
	for cidr, good := range map[string]bool{
		"169.254.169.254/32": false, "100.100.100.200/32": false, "168.63.129.16/32": false, "fd00:ec2::254/128": false, "169.254.0.0/16": false,
		"224.0.0.251/32": false, "255.255.255.255/32": false, "0.0.0.0/8": false, "192.0.2.0/24": false, "198.18.0.0/16": false, "fe80::/64": false,
		"10.0.0.0/8": true, "100.64.0.0/10": true, "fd00::/8": true, "9.9.9.0/24": true, "0.0.0.0/0": true, "168.63.129.0/24": true,
	} {
		for name, r := range map[string]Rule{
			"cidr": {CIDR: cidr, Protocol: TCP, Ports: []int{80}}, "private": {Name: "a.example", Private: []string{cidr}},
		} {
			if bad := restricted(r).Check(); (len(bad) == 0) != good {
				t.Errorf("%s %s: %v", name, cidr, bad)
			}
		}
	}
	tunnel := restricted(Rule{CIDR: "198.18.5.0/24", Protocol: TCP, Ports: []int{80}})
	tunnel.Exempt = []string{"198.18.0.0/16"}
	if bad := tunnel.Check(); bad != nil {
		t.Errorf("a range that a tunnel gives out: %v", bad)
	}
}
