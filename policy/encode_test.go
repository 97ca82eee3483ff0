package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/preload"
)

// everything is a policy in which no field is zero but the bridge, which no
// file has: TestEncode fails for a field that is added and not written.
func everything() Policy {
	return Policy{
		Profile: ProfileCompat, Rootfs: "/srv/root fs", Hostname: "h", Preload: preload.Spec{Interpreter: preload.Python, Modules: []string{"json", "a.b"}},
		ReadOnly: []Bind{{Source: "/srv/it's \"a\"", Target: "/a\tb\u2028"}},
		Env:      map[string]string{"A": "1\n'''\"\"\"\\u0000\x7f", "_b": ""},
		Net: egress.Policy{
			Mode: egress.ModeRestricted, DNS: egress.DNSReal, Exempt: []string{"198.18.0.0/16"}, IPv6: true, HostPorts: []int{8000},
			Rules: []egress.Rule{{
				Name: "api.example", Ports: []int{443, 8443}, TLS: egress.Intercept, Methods: []string{"GET"}, Paths: []string{"/v1/**"},
				WebSocket: true, Private: []string{"10.0.0.0/8"}, For: 90 * time.Minute, Until: time.Date(2026, 12, 31, 12, 0, 0, 5, time.UTC),
				MaxFlows: 3, MaxBytesOut: 1 << 40, PublicSuffix: true, ID: "api", Reason: "r",
				Inject: []egress.Secret{{Header: "Authorization", Variable: "TOKEN", Prefix: "Bearer "}},
			}, {CIDR: "9.9.9.0/24", Ports: []int{53}, Protocol: egress.TCP}},
			Deny: []egress.Deny{{Name: "b.example", Ports: []int{1}}, {CIDR: "9.9.9.9/32"}},
		},
		Memory: GiB + 1, CPUs: 0.05, PIDs: 7, Disk: MiB, Inodes: 8, Files: 16, Output: KiB, EndOnOutput: EndRun,
		Wall: time.Hour, CPUTime: 1500 * time.Millisecond, Grace: time.Second, Allow: []Weakening{WeakLimits, UnsafeBinds},
	}
}

func TestEncode(t *testing.T) {
	for _, p := range []Policy{{}, {CPUs: 2}, {Net: egress.Policy{Mode: egress.ModeFull}}, full(), everything()} {
		text, err := Encode(p)
		if err != nil {
			t.Errorf("%+v: %v", p, err)
			continue
		}
		if again, err := Decode("again", text); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%+v, %v; want %+v; written as\n%s", again, err, p, text)
		}
	}
	notZero(t, "Policy", reflect.ValueOf(everything()))
}

// notZero fails for a field that is zero.
func notZero(t *testing.T, at string, v reflect.Value) {
	for i := range v.NumField() {
		name, f := at+"."+v.Type().Field(i).Name, v.Field(i)
		switch {
		case name == "Policy.Bridge":
		case f.IsZero():
			t.Errorf("%s is not tried", name)
		case f.Type() == reflect.TypeFor[egress.Policy]():
			notZero(t, name, f)
		case f.Type() == reflect.TypeFor[[]egress.Rule]():
			ruleFields(t, f)
		}
	}
}

// ruleFields fails for a field that is zero in every rule.
func ruleFields(t *testing.T, rules reflect.Value) {
	for i := range rules.Type().Elem().NumField() {
		tried := false
		for j := range rules.Len() {
			tried = tried || !rules.Index(j).Field(i).IsZero()
		}
		if !tried {
			t.Errorf("%s of a rule is not tried", rules.Type().Elem().Field(i).Name)
		}
	}
}

// What a file cannot say is refused, and never written as something else.
func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		p    Policy
	}{
		{"no file has a bridge", Policy{Bridge: FileBridge}},
		{"is not UTF-8", Policy{ReadOnly: []Bind{{Source: "/srv/\xff"}}}},
		{"is not UTF-8", Policy{Rootfs: "/srv/\xc3"}},
		{"is not UTF-8", Policy{Env: map[string]string{"A": "é\x80"}}},
		{"is not UTF-8", Policy{Env: map[string]string{"A": "\x85\n\x01"}}},
		{"no name", Policy{Profile: 7}},
		{"it is negative", Policy{PIDs: -1}},
		{"cannot set variable", Policy{Env: map[string]string{"A=B": ""}}},
		{"max-bytes-out", Policy{Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "a.example", MaxBytesOut: 1 << 60}}}}},
		{"it has a zero byte", Policy{Rootfs: "/a\x00b"}},
		{"no weakening has that", Policy{Allow: []Weakening{"all"}}},
	} {
		if text, err := Encode(c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q; written as\n%s", c.p, err, c.want, text)
		}
	}
}
