package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// A caller's hard limit that is lower than ours lowers what no setting
// promises: limits.conf with "hard core 0" or LimitMEMLOCK=0 refuse no run.
func TestHardLimitsLower(t *testing.T) {
	f := machine(t)
	f.HardLimits = map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_SIGPENDING: 7, unix.RLIMIT_STACK: 1 << 20, unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_AS: 1,
	}
	want := map[int][2]uint64{
		unix.RLIMIT_CORE: {0, 0}, unix.RLIMIT_MEMLOCK: {0, 0}, unix.RLIMIT_SIGPENDING: {7, 7}, unix.RLIMIT_STACK: {1 << 20, 1 << 20},
		unix.RLIMIT_NOFILE: {policy.DefaultFiles, policy.DefaultFiles},
	}
	for _, l := range resolve(t, policy.Policy{}, f).Rlimits {
		if w, ok := want[l.Resource]; ok && (l.Soft != w[0] || l.Hard != w[1]) {
			t.Errorf("%s is %d, hard %d; want %v", l.Name, l.Soft, l.Hard, w)
		}
	}
}

// What a setting promises is not lowered silently. What is told to be given
// instead is accepted.
func TestHardLimitsRefuse(t *testing.T) {
	for _, tt := range []struct {
		name     string
		resource int
		hard     uint64
		policy   policy.Policy
		weak     bool
		remedy   string
		instead  policy.Policy
	}{
		{"files", unix.RLIMIT_NOFILE, 100, policy.Policy{}, false, "give --files 100 or less", policy.Policy{Files: 100}},
		{"processes", unix.RLIMIT_NPROC, 100, policy.Policy{}, false, "give --pids 35 or less", policy.Policy{PIDs: 35}},
		{"too few processes", unix.RLIMIT_NPROC, 50, policy.Policy{}, false, "raise the limit (ulimit -Hu)", policy.Policy{}},
		{"disk", unix.RLIMIT_FSIZE, 20_000_000, policy.Policy{}, false, "give --disk 20000000B or less", policy.Policy{Disk: 20_000_000}},
		{"memory", unix.RLIMIT_DATA, 10 << 20, policy.Policy{}, true, "give --memory 10485760B or less", policy.Policy{Memory: 10 << 20}},
		{"processor time", unix.RLIMIT_CPU, 10, policy.Policy{CPUTime: 20 * time.Second}, false, "give --cpu-time 7s or less", policy.Policy{CPUTime: 7 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := machine(t)
			f.HardLimits = map[int]uint64{tt.resource: tt.hard}
			if tt.weak {
				f.Memory = No
				tt.policy.Allow, tt.instead.Allow = []policy.Weakening{policy.WeakLimits}, []policy.Weakening{policy.WeakLimits}
			}
			_, err := Resolve(tt.policy, f)
			var r *Refusal
			if !errors.As(err, &r) || len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].Remedy, tt.remedy) {
				t.Fatalf("got %v, want a refusal with %q", err, tt.remedy)
			}
			if tt.name != "too few processes" {
				resolve(t, tt.instead, f)
			}
		})
	}
}

// A hard limit of 0 does not keep the kernel from starting a program that
// parses the dump (core(5)); only 1 does.
func TestCoreHandlerNeedsALimitOfOne(t *testing.T) {
	f := machine(t)
	f.CoreHandler = Yes
	resolve(t, policy.Policy{}, f)
	f.HardLimits = map[int]uint64{unix.RLIMIT_CORE: 0}
	_, err := Resolve(policy.Policy{}, f)
	var r *Refusal
	if !errors.As(err, &r) || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Remedy, "ulimit -Hc") {
		t.Errorf("got %v, want a refusal that names the limit", err)
	}
}

// The stack may grow as far as memory goes where memory is counted, and never
// without an end: that would change where the kernel puts everything else.
func TestStackGoesAsFarAsMemory(t *testing.T) {
	for _, tt := range []struct {
		memory policy.Size
		weak   bool
		hard   uint64
	}{{policy.GiB, false, 1 << 30}, {4 * policy.MiB, false, mostStack}, {policy.GiB, true, mostStack}} {
		f, p := machine(t), policy.Policy{Memory: tt.memory}
		if tt.weak {
			f.Memory, p.Allow = No, []policy.Weakening{policy.WeakLimits}
		}
		for _, l := range resolve(t, p, f).Rlimits {
			if l.Resource == unix.RLIMIT_STACK && (l.Soft != 8<<20 || l.Hard != tt.hard) {
				t.Errorf("memory %v: stack %d, hard %d", tt.memory, l.Soft, l.Hard)
			}
		}
	}
}
