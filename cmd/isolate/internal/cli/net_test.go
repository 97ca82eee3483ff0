package cli

import (
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
)

func TestNetFlags(t *testing.T) {
	minute := time.Minute
	for _, c := range []struct {
		args []string
		want egress.Policy
	}{
		{nil, egress.Policy{}},
		{[]string{"--net", "none"}, egress.Policy{}},
		{[]string{"--net", "full"}, egress.Policy{Mode: egress.ModeFull}},
		{[]string{"--net", "restricted"}, egress.Policy{Mode: egress.ModeRestricted}},
		{[]string{"--net", "allow:a.example", "--net", "allow:b.example:8443", "--net-for", "1m"}, egress.Policy{Mode: egress.ModeRestricted,
			Rules: []egress.Rule{{Name: "a.example", For: minute}, {Name: "b.example", Ports: []int{8443}, For: minute}}}},
		{[]string{"--net", "host:5432,8000"}, egress.Policy{Mode: egress.ModeRestricted, HostPorts: []int{5432, 8000}}},
		{[]string{"--net", "host:5432", "--net", "full", "--net-dns", "real"}, egress.Policy{Mode: egress.ModeFull, HostPorts: []int{5432}, DNS: egress.DNSReal}},
		{[]string{"--net", "restricted", "--net-ipv6"}, egress.Policy{Mode: egress.ModeRestricted, IPv6: true}},
		{[]string{"--net-preset", "pip"}, egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "pypi.org"}, {Name: "files.pythonhosted.org"}}}},
	} {
		f := &fake{}
		if got := call(t, f, "/", append(append([]string{"exec"}, c.args...), "true")...); got != (called{}) {
			t.Errorf("%v: got %+v", c.args, got)
		}
		if !reflect.DeepEqual(f.policy.Net, c.want) {
			t.Errorf("%v: got %+v, want %+v", c.args, f.policy.Net, c.want)
		}
		if consent := slices.Contains(f.policy.Allow, policy.HostPorts); consent != (len(c.want.HostPorts) > 0) {
			t.Errorf("%v: the consent is %v", c.args, f.policy.Allow)
		}
	}
	for _, args := range [][]string{{"--net", "x"}, {"--net", "allow:*"}, {"--net", "full", "--net", "allow:a.example"}, {"--net-preset", "x"}, {"--net-for", "1m"},
		{"--net", "allow:a.example", "--net-for", "x"}, {"--net", "none", "--net-preset", "pip"}, {"--net", "host:"}, {"--net", "host:0"}, {"--net", "none", "--net", "host:80"}, {"--net", "host:80", "--net", "none"},
		{"--net", "host:80", "--net-for", "1m"}, {"--net-dns", "some", "--net", "full"}, {"--net-dns", "real"}, {"--net-ipv6"}} {
		f := &fake{}
		if got := call(t, f, "/", append(append([]string{"exec"}, args...), "true")...); got.code != exitRefused || !strings.Contains(got.stderr, "hint:") || f.opened != 0 {
			t.Errorf("%v: got %+v", args, got)
		}
	}
}

// TestNetFlagsHints has hints that name flags, and of the flag that was typed.
func TestNetFlagsHints(t *testing.T) {
	for arg, want := range map[string]string{
		"--net-dns=some": "error: --net-dns: cannot read dns \"some\": it is one of synthetic, real\nhint: write synthetic or real\n",
		"--net-dns=real": "error: cannot use --net-dns without a network\nhint: add --net allow:HOST, --net restricted or --net full\n",
		"--net-ipv6":     "error: cannot use --net-ipv6 without a network\nhint: add --net allow:HOST, --net restricted or --net full\n",
	} {
		if got := call(t, &fake{}, "/", "exec", arg, "true"); got != (called{code: exitRefused, stderr: want}) {
			t.Errorf("%s: got %+v", arg, got)
		}
	}
}

// TestNoHostPort says where a granted port is to a program that failed and did
// not use it, and to no other.
func TestNoHostPort(t *testing.T) {
	granted := policy.Policy{Net: egress.Policy{HostPorts: []int{80}}}
	failed := isolate.Result{Reason: isolate.ReasonExit, ExitCode: 1, Net: &isolate.NetSummary{}}
	if got := noHostPort(failed, granted); !strings.Contains(got, "host.isolate.internal") {
		t.Errorf("got %q", got)
	}
	well, used, killed := failed, failed, failed
	well.ExitCode, killed.Reason = 0, isolate.ReasonWall
	used.Net = &isolate.NetSummary{Flows: 1}
	for name, got := range map[string]string{"no port": noHostPort(failed, policy.Policy{}), "exit 0": noHostPort(well, granted), "used": noHostPort(used, granted), "killed": noHostPort(killed, granted), "no network": noHostPort(isolate.Result{ExitCode: 1, Reason: isolate.ReasonExit}, granted)} {
		if got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestNetExplain(t *testing.T) {
	got := call(t, &fake{}, "/", "net", "explain", "--net", "allow:a.example", "a.example", "https://a.example/x")
	if got.code != 0 || strings.Count(got.stdout, "allowed by https:a.example:443") != 2 {
		t.Errorf("got %+v", got)
	}
	got = call(t, &fake{}, "/", "net", "explain", "--net", "allow:a.example", "a.example:22")
	if got.code != 1 || !strings.Contains(got.stdout, "port_not_allowed") {
		t.Errorf("got %+v", got)
	}
	for _, args := range [][]string{{"explain"}, {"explain", "127.1"}, {"explain", "a.example:x"}, {"x"}} {
		if got := call(t, &fake{}, "/", append([]string{"net"}, args...)...); got.code != exitRefused || got.stderr == "" {
			t.Errorf("%v: got %+v", args, got)
		}
	}
}

func TestNetClosing(t *testing.T) {
	s := egress.Summary{Failed: "broken"}
	for _, h := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		s.Add(egress.Event{Type: egress.EventDNS, Name: h + ".example", Verdict: egress.Refuse, Reason: egress.ReasonNameNotAllowed, Hint: "--net allow:" + h + ".example"})
	}
	lines := netClosing(&s)
	if len(lines) != maxDenials+2 || !strings.Contains(lines[0], "a.example") || !strings.Contains(lines[0], "--net allow:a.example") || !strings.Contains(lines[maxDenials], "2 more") {
		t.Errorf("got %q", lines)
	}
	if netClosing(nil) != nil {
		t.Error("without a network there are words")
	}
}

func TestBuildFlags(t *testing.T) {
	for _, args := range [][]string{{"--build-net", "allow:a.example"}, {"--build", "true", "--build-net", "x"}, {"--build", ""}} {
		f := &fake{}
		if got := call(t, f, "/", append(append([]string{"run"}, args...), "/bin/true")...); got.code != exitRefused || f.opened != 0 {
			t.Errorf("%v: got %+v", args, got)
		}
	}
}

// brokenPipe is an output that nobody reads.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// The exit code of net explain is its answer, also for who does not read the words.
func TestNetExplainUnread(t *testing.T) {
	for target, want := range map[string]int{"b.example:443": 1, "a.example:443": exitSignal + int(syscall.SIGPIPE)} {
		if got := Run(t.Context(), []string{"isolate", "net", "explain", "--net", "allow:a.example", target}, strings.NewReader(""), brokenPipe{}, io.Discard); got != want {
			t.Errorf("%s: got %d, want %d", target, got, want)
		}
	}
}
