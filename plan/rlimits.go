package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// Rlimit is one limit of each process.
type Rlimit struct {
	Name     string `json:"name"`
	Resource int    `json:"-"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// ProcessLimits are the limits that a process has itself, by resource
// (RLIMIT_…). What is missing is not limited.
type ProcessLimits map[int]ProcessLimit

// ProcessLimit is one of them.
type ProcessLimit struct{ Soft, Hard uint64 }

// Within are the limits of who may go beyond neither l nor outer.
func (l ProcessLimits) Within(outer ProcessLimits) ProcessLimits {
	both := ProcessLimits{}
	maps.Copy(both, outer)
	for resource, own := range l {
		if other, limited := outer[resource]; limited {
			own = ProcessLimit{min(own.Soft, other.Soft), min(own.Hard, other.Hard)}
		}
		both[resource] = own
	}
	return both
}

// forksUnderWay is how far the limit of processes a user has lies above that of
// the cgroup. A fork counts for the user before the cgroup is asked, so on
// several processors a few more may be counted than will be allowed.
const forksUnderWay = 64

// mostStack is how far a program may raise its stack where nothing counts it.
const mostStack = 64 << 20

// rlimits are the limits of the policy table, row "rlimits". Core is 1, not
// 0: a core_pattern that is a pipe ignores 0 and treats 1 as "skip" (core(5)).
// The init counts as a process too. Where a cgroup limits processes, the
// per-user limit lies above it: the kernel looks at it first, and what it
// refuses is not counted, so that nobody could tell the reason "pids".
func rlimits(p policy.Policy, weak bool) []Rlimit {
	files := uint64(p.Files)
	processes := uint64(p.PIDs) + 1
	if !weak {
		// forks that are under way on other processors count already
		processes += forksUnderWay
	}
	stack := uint64(mostStack)
	if !weak {
		// counted as memory: a program that recurses may have all of it
		stack = max(stack, uint64(p.Memory))
	}
	l := []Rlimit{
		{"core", unix.RLIMIT_CORE, 1, 1},
		// hard as soft: with more, a program could use up the descriptors in
		// flight that all sandboxes of a user share
		{"open files", unix.RLIMIT_NOFILE, files, files},
		{"processes", unix.RLIMIT_NPROC, processes, processes},
		{"file size", unix.RLIMIT_FSIZE, uint64(p.Disk), uint64(p.Disk)},
		{"stack", unix.RLIMIT_STACK, 8 << 20, stack},
		{"locked memory", unix.RLIMIT_MEMLOCK, 64 << 10, 64 << 10},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0, 0},
		{"pending signals", unix.RLIMIT_SIGPENDING, 1024, 1024},
		{"real-time priority", unix.RLIMIT_RTPRIO, 0, 0},
		{"niceness", unix.RLIMIT_NICE, 0, 0},
	}
	if p.CPUTime > 0 {
		// a backstop only: it counts one process, in whole seconds
		s := seconds(p.CPUTime)
		if !weak {
			s += 2 // the cgroup's count decides
		}
		l = append(l, Rlimit{"cpu", unix.RLIMIT_CPU, s, s + 1})
	}
	if weak {
		// not the address space: run times reserve far more than they use
		l = append(l, Rlimit{"data", unix.RLIMIT_DATA, uint64(p.Memory), uint64(p.Memory)})
	}
	return l
}

// seconds rounds up.
func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }

// within keeps limits below the caller's own, which nobody can exceed. One that
// a setting of the policy promises is refused; the others are lowered, and a
// program is held tighter than the policy says.
func (r *resolver) within(limits []Rlimit) []Rlimit {
	for i, l := range limits {
		caller, limited := r.facts.Caller[l.Resource]
		hard := caller.Hard
		if !limited || l.Hard <= hard {
			continue
		}
		limits[i].Soft, limits[i].Hard = min(l.Soft, hard), hard
		if l.Resource == unix.RLIMIT_CORE && r.facts.CoreHandler == Yes {
			r.refuse("cannot keep crash dumps from the program that kernel.core_pattern names",
				"the hard limit of core files of this process is 0, which it ignores", "raise the limit to 1 or more (ulimit -Hc, or LimitCORE= of a service)")
			continue
		}
		if what, setting, shell := r.promised(l, hard); what != "" {
			r.refuse("cannot allow "+what, fmt.Sprintf("the hard limit of this process is %d", hard), setting+"raise the limit (ulimit -H"+shell+")")
		}
	}
	return limits
}

type passed struct {
	name     string
	resource int
}

// passedOn are the limits that a policy does not set and that a process passes
// on to those it starts, by name. What else there is has no effect here.
var passedOn = []passed{
	{"cpu", unix.RLIMIT_CPU},
	{"data", unix.RLIMIT_DATA},
	{"address space", unix.RLIMIT_AS},
}

// PassedOn tells whether a limit of the caller itself becomes the program's; of
// the others the hard ones count, which nobody can exceed.
func PassedOn(resource int) bool {
	return slices.ContainsFunc(passedOn, func(l passed) bool { return l.resource == resource })
}

// inherited adds the caller's own limits to those of the policy, where that sets
// none.
func (r *resolver) inherited(limits []Rlimit) []Rlimit {
	for _, l := range passedOn {
		own, limited := r.facts.Caller[l.resource]
		if limited && !slices.ContainsFunc(limits, func(set Rlimit) bool { return set.Resource == l.resource }) {
			limits = append(limits, Rlimit{l.name, l.resource, own.Soft, own.Hard})
		}
	}
	return limits
}

// promised tells what a setting promises of a limit, "" if none does; what to
// give to stay below hard, if anything does; and the letter of the limit in a
// shell.
func (r *resolver) promised(l Rlimit, hard uint64) (what, setting, shell string) {
	p := r.policy
	give := func(flag string, most, least uint64, unit string) string {
		if most < least {
			return ""
		}
		return fmt.Sprintf("give --%s %d%s or less, or ", flag, most, unit)
	}
	spare := func(promised uint64) uint64 { return hard - min(hard, l.Hard-promised) }
	switch l.Resource {
	case unix.RLIMIT_NOFILE:
		return fmt.Sprintf("%d open files", p.Files), give("files", hard, policy.MinFiles, ""), "n"
	case unix.RLIMIT_NPROC:
		return fmt.Sprintf("%d processes", p.PIDs), give("pids", spare(uint64(p.PIDs)), 1, ""), "u"
	case unix.RLIMIT_FSIZE:
		return fmt.Sprintf("%v in files", p.Disk), give("disk", hard, uint64(policy.MinDisk), "B"), "f"
	case unix.RLIMIT_DATA:
		return fmt.Sprintf("%v of memory", p.Memory), give("memory", hard, uint64(policy.MinMemory), "B"), "d"
	case unix.RLIMIT_CPU:
		return fmt.Sprintf("%s of processor time", p.CPUTime), give("cpu-time", spare(seconds(p.CPUTime)), 1, "s"), "t"
	}
	return "", "", ""
}
