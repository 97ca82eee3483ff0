package host

import (
	"fmt"
	"strconv"
	"strings"
)

// minRelease is the oldest kernel isolate is made for: cgroup.kill and
// resource limits per user namespace came with it.
const minRelease = "5.14"

// olderThan compares the first two numbers of kernel releases; ok is false if
// they cannot be read.
func olderThan(release, other string) (older, ok bool) {
	a, aok := majorMinor(release)
	b, bok := majorMinor(other)
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1], aok && bok
}

func majorMinor(release string) (v [2]int, ok bool) {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	var err1, err2 error
	v[0], err1 = strconv.Atoi(major)
	v[1], err2 = strconv.Atoi(minor)
	return v, err1 == nil && err2 == nil
}

func checkKernelVersion(s *sight) Check {
	seen := "Linux " + s.calls.Release
	older, ok := olderThan(s.calls.Release, minRelease)
	switch {
	case !ok:
		return kernelVersion.info(fmt.Sprintf("the release %q cannot be compared", s.calls.Release))
	case older:
		return s.say(&kernelVersion, &kernelOld, Warn, seen)
	}
	return kernelVersion.ok(seen)
}

// featureName is the name in Calls of a check.
func (e *entry) featureName() string { return strings.TrimPrefix(e.id, "kernel.") }

// callWords chooses the words for a system call that does not work: the kernel
// lacks it, or it is refused on a kernel that has it.
func (s *sight) callWords(e *entry) *fault {
	switch e {
	case &kernelKillable:
		return &killableAbsent
	case &kernelClone3:
		return &clone3Absent
	case &kernelNotify:
		return &notifyRefused
	}
	if older, ok := olderThan(s.calls.Release, featureOf(e.featureName()).since); ok && !older {
		return &featureFiltered
	}
	return &featureAbsent
}

func checkFeature(e *entry, worst Status) func(*sight) Check {
	return func(s *sight) Check {
		name := e.featureName()
		errno, bad := s.calls.Errors[name]
		if !bad {
			return e.ok("called " + featureOf(name).call)
		}
		c := s.say(e, s.callWords(e), worst, "called "+featureOf(name).call+": "+errno.String())
		c.cause = errno
		return c
	}
}

func checkNotify(s *sight) Check {
	if _, bad := s.calls.Errors[kernelNotify.featureName()]; bad || !s.done {
		return checkFeature(&kernelNotify, Fail)(s)
	}
	return s.byDoing(&kernelNotify, always(&notifyRefused))
}

func checkMountAPI(s *sight) Check {
	needed := []string{kernelMountAPI.featureName()}
	if s.o.UID == 0 { // whose cells are another user and cannot reach every path
		needed = append(needed, "open_tree")
	}
	for _, name := range needed {
		if errno, bad := s.calls.Errors[name]; bad {
			c := s.say(&kernelMountAPI, s.callWords(&kernelMountAPI), Fail, "called "+featureOf(name).call+": "+errno.String())
			c.cause = errno
			return c
		}
	}
	return kernelMountAPI.ok("called mount_setattr")
}

func checkUcounts(s *sight) Check {
	older, ok := olderThan(s.calls.Release, minRelease)
	if !ok || older {
		return kernelUcounts.info("Linux " + s.calls.Release + " counts resource limits per user only")
	}
	return kernelUcounts.ok("Linux " + s.calls.Release + " has it")
}

func checkLandlock(s *sight) Check {
	if s.calls.Landlock == 0 {
		return kernelLandlock.info("not there; it would only be a second layer")
	}
	return kernelLandlock.ok(fmt.Sprintf("version %d of its interface", s.calls.Landlock))
}

// minLibseccompAPI is the level with user notification; see seccomp_api_get(3).
const minLibseccompAPI = 6

func checkLibseccomp(s *sight) Check {
	l := s.o.Libseccomp
	if l == nil {
		l = linkedLibseccomp(s.o.Syscalls)
	}
	if l == nil {
		return libseccompCheck.info("not linked into this program (build tag seccomp)")
	}
	seen := fmt.Sprintf("built with %s, running with %s, level %d", l.Built, l.Loaded, l.API)
	switch {
	case l.API < minLibseccompAPI:
		return s.say(&libseccompCheck, &libseccompOld, Warn, seen)
	case len(l.Unknown) > 0:
		return s.say(&libseccompCheck, &libseccompUnknown, Warn, seen+"; unknown: "+strings.Join(l.Unknown, ", "))
	}
	if older, ok := olderThan(l.Loaded, l.Built); ok && older {
		return s.say(&libseccompCheck, &libseccompOther, Warn, seen)
	}
	if len(s.o.Syscalls) > 0 {
		seen += fmt.Sprintf("; all %d names are known", len(s.o.Syscalls))
	}
	return libseccompCheck.ok(seen)
}

func checkMemfdNoexec(s *sight) Check {
	n, ok := s.o.sysctl("vm.memfd_noexec")
	if !ok {
		return memfdNoexec.ok("vm.memfd_noexec does not exist on this kernel")
	}
	seen := fmt.Sprintf("vm.memfd_noexec is %d", n)
	if n >= 2 {
		return s.say(&memfdNoexec, &memfdForbidden, Fail, seen)
	}
	return memfdNoexec.ok(seen)
}

func checkMemfdExec(s *sight) Check { return s.byDoing(&memfdExec, always(&memfdRefused)) }
