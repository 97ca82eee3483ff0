package plan

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

func hardLimits(of map[int]uint64) ProcessLimits {
	limits := ProcessLimits{}
	for resource, hard := range of {
		limits[resource] = ProcessLimit{hard, hard}
	}
	return limits
}

// What the policy does not limit has the caller's own limits; what it limits has
// the policy's, below the caller's.
func TestCallersLimitsArePassedOn(t *testing.T) {
	f := machine(t)
	f.Caller = ProcessLimits{unix.RLIMIT_CPU: {5, 9}, unix.RLIMIT_AS: {1 << 30, unix.RLIM_INFINITY}, unix.RLIMIT_RTTIME: {1, 1}}
	find := func(p policy.Policy, resource int) (found []Rlimit) {
		for _, l := range resolve(t, p, f).Rlimits {
			if l.Resource == resource {
				found = append(found, l)
			}
		}
		return found
	}
	if l := find(policy.Policy{}, unix.RLIMIT_CPU); len(l) != 1 || l[0].Soft != 5 || l[0].Hard != 9 {
		t.Errorf("processor time: %+v", l)
	}
	if l := find(policy.Policy{CPUTime: 2 * time.Second}, unix.RLIMIT_CPU); len(l) != 1 || l[0].Soft != 4 || l[0].Hard != 5 {
		t.Errorf("processor time that the policy limits: %+v", l)
	}
	if l := find(policy.Policy{}, unix.RLIMIT_AS); len(l) != 1 || l[0].Soft != 1<<30 || l[0].Hard != unix.RLIM_INFINITY {
		t.Errorf("address space: %+v", l)
	}
	if l := find(policy.Policy{}, unix.RLIMIT_RTTIME); len(l) != 0 {
		t.Errorf("real time: %+v", l)
	}
}

// Who asks by way of a process is held within the limits of both.
func TestProcessLimitsWithin(t *testing.T) {
	own := ProcessLimits{unix.RLIMIT_CPU: {5, 9}, unix.RLIMIT_AS: {1, 2}}
	outer := ProcessLimits{unix.RLIMIT_CPU: {7, 7}, unix.RLIMIT_DATA: {3, 3}}
	want := ProcessLimits{unix.RLIMIT_CPU: {5, 7}, unix.RLIMIT_AS: {1, 2}, unix.RLIMIT_DATA: {3, 3}}
	if got := own.Within(outer); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := ProcessLimits(nil).Within(outer); !maps.Equal(got, outer) {
		t.Errorf("without limits of one's own: %v", got)
	}
	if len(outer) != 2 {
		t.Error("the outer limits were changed")
	}
}

// A caller's hard limit that is lower than ours lowers what no setting
// promises: limits.conf with "hard core 0" or LimitMEMLOCK=0 refuse no run.
func TestHardLimitsLower(t *testing.T) {
	f := machine(t)
	f.Caller = hardLimits(map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_SIGPENDING: 7, unix.RLIMIT_STACK: 1 << 20, unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_AS: 1,
	})
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
			f.Caller = hardLimits(map[int]uint64{tt.resource: tt.hard})
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
	f.Caller = hardLimits(map[int]uint64{unix.RLIMIT_CORE: 0})
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
