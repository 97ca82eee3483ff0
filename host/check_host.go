package host

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
)

func checkInotifyWatch(s *sight) Check { return s.byDoing(&inotifyWatch, always(&inotifyRefused)) }

// checkInotifyLimit warns below the kernel's own default (128 instances, 16384
// queued events) or, for watches, whose default grows with memory, below the
// 8192 of old kernels.
func checkInotifyLimit(e *entry, setting string, least int64) func(*sight) Check {
	return func(s *sight) Check {
		n, ok := s.o.sysctl(setting)
		if !ok {
			return e.info(setting + " cannot be read")
		}
		seen := fmt.Sprintf("%s is %d", setting, n)
		if n < least {
			return s.say(e, &inotifyLow, Warn, fmt.Sprintf("%s, at least %d is wanted", seen, least))
		}
		return e.ok(seen)
	}
}

// checkRlimit looks at a hard limit. 4096 files are the hard limit programs in
// a sandbox get; 512 processes are four sandboxes with the default of 128.
func checkRlimit(e *entry, name string, least uint64) func(*sight) Check {
	return func(s *sight) Check {
		soft, hard, ok := s.rlimit(name)
		if !ok {
			return e.info("/proc/self/limits cannot be read")
		}
		seen := fmt.Sprintf("%q is %s, at most %s", name, limitText(soft), limitText(hard))
		if hard < least {
			return s.say(e, &rlimitLow, Warn, fmt.Sprintf("%s; at least %d is wanted", seen, least))
		}
		return e.ok(seen)
	}
}

// rlimit reads a line of /proc/self/limits: name, soft, hard, unit.
func (s *sight) rlimit(name string) (soft, hard uint64, ok bool) {
	for line := range strings.Lines(s.o.text("/proc/self/limits")) {
		rest, found := strings.CutPrefix(line, name+" ")
		f := strings.Fields(rest)
		if !found || len(f) < 2 {
			continue
		}
		soft, serr := limitNumber(f[0])
		hard, herr := limitNumber(f[1])
		return soft, hard, serr == nil && herr == nil
	}
	return 0, 0, false
}

func limitNumber(s string) (uint64, error) {
	if s == "unlimited" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

func limitText(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// cheapClocks are read without a system call.
var cheapClocks = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource", "timebase"}

func checkClock(s *sight) Check {
	c := s.o.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch {
	case c == "":
		return hostClock.info("the clock source cannot be read")
	case slices.Contains(cheapClocks, c):
		return hostClock.ok(fmt.Sprintf("the clock source is %q", c))
	}
	return s.say(&hostClock, &clockSlow, Info, fmt.Sprintf("the clock source is %q", c))
}

func checkHidepid(s *sight) Check {
	m := s.mountOf("/proc")
	if m == nil || m.FSType != "proc" {
		return hostHidepid.info("the mount table does not say how /proc is mounted")
	}
	for o := range strings.SplitSeq(m.VFSOptions+","+m.Options, ",") {
		if v, ok := strings.CutPrefix(o, "hidepid="); ok && v != "0" && v != "off" {
			return hostHidepid.ok("/proc is mounted with " + o)
		}
	}
	return s.say(&hostHidepid, &hidepidOff, Info, "/proc is mounted without hidepid")
}

func checkTimeNamespace(s *sight) Check {
	if s.o.exists("/proc/self/ns/time") {
		return hostTimeNS.ok("/proc/self/ns/time exists")
	}
	return hostTimeNS.info("/proc/self/ns/time does not exist; programs can read how long the host has been up")
}

func checkRootfs(s *sight) Check {
	if s.o.Rootfs != "" {
		return hostRootfs.ok(fmt.Sprintf("sandboxes get %q", s.o.Rootfs))
	}
	return s.say(&hostRootfs, &hostView, Info, "sandboxes get the host view, /usr of the host read-only")
}

func (s *sight) audit() Audit {
	var a Audit
	if s.o.Audit != nil {
		a = *s.o.Audit
	}
	if a.Space == 0 {
		a.Space = defaultAuditSpace
	}
	return a
}

func hasAudit(s *sight) bool    { return s.o.Audit != nil }
func hasAuditKey(s *sight) bool { return s.audit().Key != "" }

func checkAuditKey(s *sight) Check {
	key := s.audit().Key
	f, err := s.o.file(key)
	if err != nil {
		return s.say(&auditKey, &keyAbsent, Fail, key+" cannot be looked at: "+errnoOf(err).String())
	}
	seen := fmt.Sprintf("%s has mode %s and owner %d", key, octal(f.Mode), f.UID)
	if f.Mode.Type() != 0 || f.Mode.Perm()&0o077 != 0 || f.UID != s.o.UID {
		return s.say(&auditKey, &keyOpen, Fail, seen)
	}
	return auditKey.ok(seen)
}

func checkAuditLog(s *sight) Check {
	dir := s.audit().Log
	f, err := s.o.file(dir)
	switch {
	case err != nil:
		return s.say(&auditLog, &logUnwritable, Fail, dir+" cannot be looked at: "+errnoOf(err).String())
	case f.Mode.Type() != fs.ModeDir:
		return s.say(&auditLog, &logUnwritable, Fail, dir+" is not a directory")
	case f.Write != 0:
		return s.say(&auditLog, &logUnwritable, Fail, dir+" cannot be written to: "+f.Write.String())
	}
	return auditLog.ok(dir + " can be written to")
}

func checkAuditSpace(s *sight) Check {
	a := s.audit()
	f, err := s.o.file(a.Log)
	if err != nil {
		return auditSpace.info("not looked at, because " + auditLog.id + " failed")
	}
	seen := fmt.Sprintf("%s is free in %s, %s is wanted", mebibytes(f.Free), a.Log, mebibytes(a.Space))
	if f.Free < a.Space {
		return s.say(&auditSpace, &logFull, Warn, seen)
	}
	return auditSpace.ok(seen)
}

func checkAuditAnchor(s *sight) Check {
	ask := s.audit().Anchor
	if ask == nil {
		return s.say(&auditAnchor, &anchorNone, Info, "no anchor is set up")
	}
	if err := ask(s.ctx); err != nil {
		return s.say(&auditAnchor, &anchorAway, Warn, "asked it: "+err.Error())
	}
	return auditAnchor.ok("it answered")
}
