package policy

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/preload"
)

func TestValidateAccepts(t *testing.T) {
	for name, p := range map[string]Policy{
		"zero":     {},
		"defaults": Policy{}.WithDefaults(),
		"lowest": {
			Memory: MinMemory, CPUs: MinCPUs, PIDs: 1, Disk: MinDisk, Inodes: 1, Files: MinFiles, Output: 1,
			Wall: MinTime, CPUTime: MinTime, Grace: MinTime,
		},
		"highest": {
			Memory: MaxSize, CPUs: MaxCPUs, PIDs: MaxPIDs, Disk: MaxSize, Inodes: MaxInodes, Files: MaxFiles, Output: MaxSize,
			Wall: MaxWall, CPUTime: MaxCPUTime, Grace: MaxGrace,
		},
		"names":                {Profile: ProfileStrict, EndOnOutput: EndRun, Hostname: "A-1.b2", Allow: slices.Clone(Weakenings)},
		"paths":                {Rootfs: "/srv/rootfs", ReadOnly: []Bind{{"/srv/data", "/data"}, {"/usr/share/dict", ""}, {"/srv/data", "/data2"}, {"/srv/a..b", "/tmpx"}, {"/srv/h", "/home/sandboxed"}, {"/srv/r", "/run/a"}}},
		"env":                  {Env: map[string]string{"A": "", "_b9": "x=y\n", "PATH": "/bin"}},
		"longest hostname":     {Hostname: strings.Repeat("a", 63)},
		"largest env":          {Env: map[string]string{"A": strings.Repeat("x", int(MaxEnv)-3)}},
		"small memory":         {Memory: 64 * MiB}, // below the default disk, which nobody asked for
		"cpu time beyond wall": {Wall: time.Second, CPUTime: time.Hour, CPUs: 0.5},
		"binds":                {ReadOnly: manyBinds(MaxBinds)},
	} {
		if ps := p.Validate(Surroundings{}); len(ps) > 0 {
			t.Errorf("%s: %v", name, ps)
		}
	}
}

func manyBinds(n int) []Bind {
	binds := make([]Bind, n)
	for i := range binds {
		binds[i] = Bind{"/srv/data", fmt.Sprintf("/data%d", i)}
	}
	return binds
}

// invalid are policies with the fields that Validate has to name, in order.
// TestErrorTexts prints their problems too.
var invalid = []struct {
	name   string
	policy Policy
	fields string
}{
	{"negative", Policy{Memory: -1, CPUs: -1, PIDs: -1, Disk: -1, Inodes: -1, Files: -1, Output: -1, Wall: -1, CPUTime: -1, Grace: -1},
		"memory cpus pids disk inodes files output time cpu-time grace"},
	{"too small", Policy{Memory: MinMemory - 1, CPUs: 0.009, Disk: MinDisk - 1, Files: 3, Wall: 1, CPUTime: 1, Grace: 1},
		"memory cpus disk files time cpu-time grace"},
	{"too large", Policy{Memory: MaxSize + 1, CPUs: MaxCPUs + 1, PIDs: MaxPIDs + 1, Disk: MaxSize + 1, Inodes: MaxInodes + 1,
		Files: MaxFiles + 1, Output: MaxSize + 1, Wall: MaxWall + 1, CPUTime: MaxCPUTime + 1, Grace: MaxGrace + 1},
		"memory cpus pids disk inodes files output time cpu-time grace"},
	{"largest numbers", Policy{Memory: math.MaxInt64, CPUs: math.Inf(1), PIDs: math.MaxInt32, Wall: math.MaxInt64}, "memory cpus pids time"},
	{"smallest numbers", Policy{Memory: math.MinInt64, CPUs: math.Inf(-1), PIDs: math.MinInt32, Wall: math.MinInt64}, "memory cpus pids time"},
	{"not a number", Policy{CPUs: math.NaN()}, "cpus"},
	{"no such names", Policy{Profile: 3, EndOnOutput: -1, Allow: []Weakening{"weak-limit", "", WeakLimits, WeakLimits}},
		"profile end-on-output allow[0] allow[1] allow[3]"},
	{"relative rootfs", Policy{Rootfs: "srv/rootfs"}, "rootfs"},
	{"unclean rootfs", Policy{Rootfs: "/srv//rootfs/"}, "rootfs"},
	{"rootfs with dots", Policy{Rootfs: "/srv/../home"}, "rootfs"},
	{"rootfs is the host", Policy{Rootfs: "/"}, "rootfs"},
	{"rootfs gives the host away", Policy{Rootfs: "/home"}, "rootfs"},
	{"rootfs with zero byte", Policy{Rootfs: "/srv\x00"}, "rootfs"},
	{"long rootfs", Policy{Rootfs: "/" + strings.Repeat("a", 4095)}, "rootfs"},
	{"hostname with underscore", Policy{Hostname: "a_b"}, "hostname"},
	{"long hostname", Policy{Hostname: strings.Repeat("a", 64)}, "hostname"},
	{"preload of another", Policy{Preload: preload.Spec{Interpreter: "perl"}}, "preload"},
	{"preload of modules alone", Policy{Preload: preload.Spec{Modules: []string{"a"}}}, "preload"},
	{"preload of no module", Policy{Preload: preload.Spec{Interpreter: "python", Modules: []string{"a; import os"}}}, "preload"},
	{"bind without source", Policy{ReadOnly: []Bind{{}}}, "read-only[0].source"},
	{"bind of relative paths", Policy{ReadOnly: []Bind{{"data", ""}, {"/srv/data", "data"}}}, "read-only[0].source read-only[1].target"},
	{"bind of unclean paths", Policy{ReadOnly: []Bind{{"/srv/data/", "/data/"}}}, "read-only[0].source read-only[0].target"},
	{"bind over our own", Policy{ReadOnly: []Bind{{"/srv/a", "/"}, {"/srv/a", "/proc"}, {"/srv/a", "/dev/shm"}, {"/srv/a", "/workspace/a"}}},
		"read-only[0].target read-only[1].target read-only[2].target read-only[3].target"},
	{"bind over the home directory", Policy{ReadOnly: []Bind{{"/srv/a", "/home"}, {"/srv/a", "/home/sandbox"}, {"/srv/a", "/home/sandbox/a"}}},
		"read-only[0].target read-only[1].target read-only[2].target"},
	{"bind through a link", Policy{ReadOnly: []Bind{{"/srv/a", "/var/run"}, {"/srv/a", "/var/run/a"}}}, "read-only[0].target read-only[1].target"},
	{"bind twice", Policy{ReadOnly: []Bind{{"/srv/a", "/srv/b"}, {"/srv/b", ""}}}, "read-only[1].target"},
	{"bind of a danger", Policy{ReadOnly: []Bind{{"/var/run/docker.sock", "/d"}, {"/home", "/h"}, {"/srv/a", ""}, {"/proc", "/p"}}},
		"read-only[0].source read-only[1].source read-only[3].source"},
	{"too many binds", Policy{ReadOnly: manyBinds(MaxBinds + 1)}, "read-only"},
	{"variables", Policy{Env: map[string]string{"": "x", "A=B": "x", "1A": "x", "A-B": "x", "A\x00": "x", "OK": "x", "Z": "a\x00b"}},
		"env. env.1A env.A\x00 env.A-B env.A=B env.Z"},
	{"large env", Policy{Env: map[string]string{"A": strings.Repeat("x", int(MaxEnv)-2)}}, "env"},
	{"disk above memory", Policy{Memory: GiB, Disk: GiB + 1}, "disk"},
	{"disk above default memory", Policy{Disk: GiB}, "disk"},
}

func TestValidateRefuses(t *testing.T) {
	for _, c := range invalid {
		var fields []string
		for _, p := range c.policy.Validate(Surroundings{}) {
			fields = append(fields, p.Field)
			if p.What == "" || p.Hint == "" || p.Line != 0 {
				t.Errorf("%s: %+v, want What, Hint and no place", c.name, p)
			}
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%s: problems of %q, want %q", c.name, got, c.fields)
		}
	}
}

func TestHostname(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "9": true, "a-b": true, "a.b": true, "A.B-c.9": true,
		"-": false, "-a": false, "a-": false, "a.-b": false, ".": false, "a.": false, ".a": false, "a..b": false, "a b": false, "ä": false,
		"a\n": false, "a/b": false, "a\x00": false,
	} {
		if ps := (Policy{Hostname: name}).Validate(Surroundings{}); (len(ps) == 0) != good {
			t.Errorf("hostname %q: %v, want good = %v", name, ps, good)
		}
	}
}

func TestUnsafeBindsIsConsentToDangersOnly(t *testing.T) {
	p := Policy{
		Rootfs:   "/home",
		ReadOnly: []Bind{{"/run/user/1000/bus", "/bus"}, {"/home/a/.ssh", "/ssh"}, {"/etc/", "/etc2"}, {"/srv", "/proc"}},
		Allow:    []Weakening{WeakLimits},
	}
	if got := len(p.Validate(Surroundings{})); got != 5 {
		t.Errorf("without consent: %d problems, want 5", got)
	}
	p.Allow = append(p.Allow, UnsafeBinds)
	var fields []string
	for _, problem := range p.Validate(Surroundings{}) {
		fields = append(fields, problem.Field)
	}
	if want := []string{"read-only[2].source", "read-only[3].target"}; !slices.Equal(fields, want) {
		t.Errorf("with consent: problems of %q, want %q", fields, want)
	}
}

func TestWithDefaults(t *testing.T) {
	want := Policy{
		Hostname: "sandbox", Memory: 512 << 20, PIDs: 128, Disk: 256 << 20, Inodes: 65536, Files: 1024, Output: 16 << 20, Wall: 60 * time.Second,
	}
	if got := (Policy{}).WithDefaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("WithDefaults of the zero policy = %+v, want %+v", got, want)
	}
	for _, p := range []Policy{full(), {}, {Allow: []Weakening{}, Env: map[string]string{}}} {
		once := p.WithDefaults()
		if twice := once.WithDefaults(); !reflect.DeepEqual(once, twice) {
			t.Errorf("WithDefaults twice = %+v, once = %+v", twice, once)
		}
	}
	if got := full().WithDefaults(); !reflect.DeepEqual(got, full()) {
		t.Errorf("WithDefaults changed settings of the author: %+v", got)
	}
}

// full has another value than the default in every field.
func full() Policy {
	return Policy{
		Profile: ProfileStrict, Rootfs: "/srv/rootfs", Hostname: "h", ReadOnly: []Bind{{"/srv/a", "/a"}, {"/srv/b", ""}},
		Preload: preload.Spec{Interpreter: preload.Python, Modules: []string{"a", "b.c"}},
		Env:     map[string]string{"A": "1", "B": ""}, Memory: GiB, CPUs: 0.5, PIDs: 7, Disk: MiB, Inodes: 8, Files: 9, Output: KiB,
		EndOnOutput: EndRun, Wall: time.Second, CPUTime: 2 * time.Second, Grace: time.Minute, Allow: []Weakening{WeakLimits, UnsafeBinds},
		Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "a.example", Ports: []int{443}}}, Deny: []egress.Deny{{Name: "b.example"}}},
	}
}

func TestFullIsFull(t *testing.T) {
	v := reflect.ValueOf(full())
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Bridge" {
			t.Errorf("full() leaves %s zero: the tests that use it miss that field", name)
		}
	}
}

// A policy is handed around as a value, so what works on it may not write
// through its map and slices, nor hand them on.
func TestPolicyIsNotShared(t *testing.T) {
	p := full()
	d := p.WithDefaults()
	d.ReadOnly[0].Source, d.Env["A"], d.Allow[0], d.Preload.Modules[0] = "/changed", "changed", "changed", "changed"
	maps.DeleteFunc(d.Env, func(string, string) bool { return true })
	if !reflect.DeepEqual(p, full()) {
		t.Errorf("a change to WithDefaults' result reached the receiver: %+v", p)
	}
	p.Validate(Surroundings{})
	if !reflect.DeepEqual(p, full()) {
		t.Errorf("Validate changed the policy: %+v", p)
	}
}
