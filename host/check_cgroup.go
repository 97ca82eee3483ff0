package host

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func checkCgroupMode(s *sight) Check {
	var seen []string
	for _, c := range s.cgroups.Controllers() {
		at := c.Dir
		if at == "" {
			at = c.Reason
		}
		seen = append(seen, c.Name+": "+at)
	}
	evidence := "mode " + string(s.cgroups.Mode) + "; " + strings.Join(seen, "; ")
	switch s.cgroups.Mode {
	case ModeCgroup2:
		return cgroupMode.ok(evidence)
	case ModeNone:
		return s.say(&cgroupMode, &cgroupModeNone, Fail, evidence)
	}
	return s.say(&cgroupMode, &cgroupModeOld, Warn, evidence)
}

// checkController judges a controller by what a child did, or by permissions
// where no child was asked.
func checkController(e *entry, worst Status) func(*sight) Check {
	return func(s *sight) Check {
		c := s.cgroups.CPU
		switch e {
		case &cgroupMemory:
			c = s.cgroups.Memory
		case &cgroupPIDs:
			c = s.cgroups.PIDs
		}
		return s.unlessAsked(e, s.judgeController(e, c, worst))
	}
}

// unlessAsked is what is not in order in this process's group, as Info if a
// run has a scope of its own in place of it.
func (s *sight) unlessAsked(e *entry, bad Check) Check {
	if bad.Status <= Warn && s.o.Manager == ManagerAsked && s.cgroups.UserManager != "" && s.cgroups.Mode == ModeCgroup2 {
		return e.info("a scope is asked of " + s.cgroups.UserManager + " at the start, which was not tried: " + bad.Evidence)
	}
	return bad
}

func (s *sight) judgeController(e *entry, c Controller, worst Status) Check {
	switch {
	case c.Version == 0 || !c.Available:
		return s.say(e, s.whyAbsent(), worst, "version "+versionOf(s.cgroups.Mode)+", "+c.Reason)
	case s.done:
		return s.byDoing(e, func(Finding) (*fault, Status) { return s.whyDenied(c), worst })
	case c.Writable != AccessYes:
		return s.say(e, s.whyDenied(c), worst, c.Reason)
	}
	return e.ok(c.Dir + " can be written to")
}

func versionOf(m Mode) string {
	switch m {
	case ModeCgroup2:
		return "2"
	case ModeCgroup1, ModeHybrid:
		return "1"
	}
	return "none"
}

// whyAbsent chooses the words for a controller that no hierarchy offers here.
func (s *sight) whyAbsent() *fault {
	if s.cgroups.Mode == ModeCgroup2 && !s.cgroups.Unified.Top {
		return &controllerUndelegated
	}
	return &controllerAbsent
}

// whyDenied chooses the words for a group that cannot be changed.
func (s *sight) whyDenied(c Controller) *fault {
	f, _ := s.answer.find("cgroup." + c.Name)
	if !s.done {
		s.nest = s.o.nesting()
	}
	switch {
	case s.nest.kind != "" && (f.Errno == Errno(unix.EROFS) || s.mountedReadOnly(c.Dir)):
		return &controllerContainer
	case c.Version == 1:
		return &controllerOld
	case s.cgroups.UserManager != "":
		return &controllerScope
	case s.o.exists("/run/systemd/system"):
		return &controllerDenied
	}
	return &controllerUnowned
}

func checkCgroupSession(s *sight) Check {
	if m := s.cgroups.UserManager; m != "" {
		return cgroupSession.ok(m + " exists")
	}
	// Without version 2 the user manager could delegate nothing.
	return s.say(&cgroupSession, &sessionAbsent, Info, "no systemd socket in $XDG_RUNTIME_DIR or /run/user")
}

func checkCgroupKill(s *sight) Check {
	f, ok := s.answer.find(cgroupKill.id)
	switch {
	case s.cgroups.Unified.Dir == "":
		return s.say(&cgroupKill, &killAbsent, Warn, "no version 2 hierarchy in sight")
	case !ok, f.Errno != 0:
		return s.unlessAsked(&cgroupKill, s.byDoing(&cgroupKill, func(Finding) (*fault, Status) { return &killUnseen, Warn }))
	case !slices.Contains(f.Files, "cgroup.kill"):
		return s.say(&cgroupKill, &killAbsent, Warn, "did: "+f.evidence()+"; it has no cgroup.kill")
	}
	return cgroupKill.ok("did: " + f.evidence() + "; it has cgroup.kill")
}

// whyNoMemoryGroup says, as Info, why nothing is known of a new memory group:
// the reason itself is reported by cgroup.memory.
func (s *sight) whyNoMemoryGroup(e *entry) (Check, Finding, bool) {
	f, ok := s.answer.find(cgroupMemory.id)
	switch {
	case !ok || f.Errno != 0:
		return e.info("not tried, because " + cgroupMemory.id + " failed"), f, false
	case s.cgroups.Memory.Version == 2 && !s.cgroups.Memory.Enabled:
		return e.info("not seen: a new group gets its memory files when isolate has moved out of " + s.cgroups.Memory.Dir), f, false
	}
	return Check{}, f, true
}

func checkCgroupOOM(s *sight) Check {
	c, f, ok := s.whyNoMemoryGroup(&cgroupOOM)
	switch {
	case !ok:
		return c
	case slices.Contains(f.Files, "memory.oom.group"):
		return cgroupOOM.ok("a new group has memory.oom.group")
	}
	return s.say(&cgroupOOM, &oomGroupAbsent, Warn, "a new group has no memory.oom.group")
}

func checkCgroupSwap(s *sight) Check {
	swaps, err := s.o.read("/proc/swaps")
	if err == nil && strings.Count(swaps, "\n") == 0 {
		return cgroupSwap.ok("/proc/swaps names no swap")
	}
	seen := "/proc/swaps names swap"
	if err != nil {
		seen = "/proc/swaps cannot be read"
	}
	c, f, ok := s.whyNoMemoryGroup(&cgroupSwap)
	if !ok {
		return c
	}
	for _, file := range []string{"memory.swap.max", "memory.memsw.limit_in_bytes"} {
		if slices.Contains(f.Files, file) {
			return cgroupSwap.ok(seen + "; a new group has " + file)
		}
	}
	return s.say(&cgroupSwap, &swapOpen, Warn, seen+"; a new group has neither memory.swap.max nor memory.memsw.limit_in_bytes")
}
