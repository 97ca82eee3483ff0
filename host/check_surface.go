package host

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkModule says whether a part of the kernel can be reached: it is built in
// or loaded, or the kernel would load it for whoever asks. It only reads; to
// ask would load the module. protocol is its name in /proc/net/protocols, or
// empty if it has none.
func checkModule(e *entry, module, protocol string) func(*sight) Check {
	return func(s *sight) Check {
		state, seen := s.moduleState(module, protocol)
		switch state {
		case moduleThere, moduleLoadable:
			return s.say(e, &moduleReachable, Info, seen)
		case moduleUnknown:
			return e.info(seen)
		}
		return e.ok(seen)
	}
}

type moduleState int

const (
	moduleUnknown  moduleState = iota
	moduleAway                 // neither there nor loadable
	moduleLoadable             // the kernel loads it on demand
	moduleThere                // built in or loaded
)

func (s *sight) moduleState(module, protocol string) (moduleState, string) {
	for line := range strings.Lines(s.o.text("/proc/net/protocols")) {
		if f := strings.Fields(line); protocol != "" && len(f) > 0 && f[0] == protocol {
			return moduleThere, "/proc/net/protocols has " + protocol
		}
	}
	loaded, err := s.o.read("/proc/modules")
	for line := range strings.Lines(loaded) {
		if strings.HasPrefix(line, module+" ") {
			return moduleThere, "module " + module + " is loaded"
		}
	}
	lib := "/lib/modules/" + s.calls.Release
	file := "/" + module + ".ko"
	switch {
	case strings.Contains(s.o.text(lib+"/modules.builtin"), file):
		return moduleThere, module + " is built into the kernel"
	case err != nil && protocol != "":
		return moduleAway, "not in /proc/net/protocols, and this kernel loads no modules"
	case !s.o.exists(lib + "/modules.dep"):
		return moduleUnknown, "cannot tell: " + lib + " cannot be seen here, module " + module + " is not loaded"
	case !strings.Contains(s.o.text(lib+"/modules.dep"), file):
		return moduleAway, "no module " + module + " is installed"
	}
	if by := s.o.moduleBarred(module); by != "" {
		return moduleAway, "module " + module + " is installed and not loaded on demand: " + by
	}
	return moduleLoadable, "module " + module + " is installed and loaded on demand"
}

// moduleBarred says what keeps a module from being loaded on demand.
func (o Options) moduleBarred(module string) string {
	if n, _ := o.sysctl("kernel.modules_disabled"); n == 1 {
		return "kernel.modules_disabled is 1"
	}
	// Directories of modprobe.d(5).
	for _, dir := range []string{"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"} {
		confs, err := filepath.Glob(filepath.Join(o.real(dir), "*.conf"))
		if err != nil {
			continue
		}
		for _, conf := range confs {
			if line := barringLine(o.text(dir+"/"+filepath.Base(conf)), module); line != "" {
				return fmt.Sprintf("%q in %s/%s", line, dir, filepath.Base(conf))
			}
		}
	}
	return ""
}

// barringLine finds "blacklist m" or "install m /bin/false" in a modprobe.d file.
func barringLine(conf, module string) string {
	for line := range strings.Lines(conf) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.ReplaceAll(f[1], "-", "_") != module {
			continue
		}
		if f[0] == "blacklist" ||
			f[0] == "install" && len(f) == 3 && slices.Contains([]string{"true", "false"}, path.Base(f[2])) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func checkIoUring(s *sight) Check {
	if e, bad := s.calls.Errors["io_uring"]; bad {
		return surfaceIoUring.ok("called io_uring_setup: " + e.String())
	}
	seen := "called io_uring_setup, it is there"
	if n, ok := s.o.sysctl("kernel.io_uring_disabled"); ok {
		seen = fmt.Sprintf("kernel.io_uring_disabled is %d", n)
		if n == 2 {
			return surfaceIoUring.ok(seen)
		}
	}
	return s.say(&surfaceIoUring, &ioUringOpen, Info, seen)
}

// exposure is a setting that opens a part of the kernel to ordinary users.
type exposure struct {
	setting string
	// closed is the smallest or, with the next field, largest value that closes it.
	closed int64
	order  order
	words  *fault
	// open is the status of a looser value: Warn where it is looser than the
	// kernel's own default, else Info.
	open Status
	// absent says what a kernel without the setting does.
	absent   Status
	absentIs string
}

type order int

const (
	atLeast order = iota // closed if the value is at least that
	atMost               // closed if it is at most that
)

// exposureOf has the settings of the surface checks. The defaults are those of
// the kernel's admin-guide/sysctl.
func exposureOf(e *entry) exposure {
	switch e {
	case &surfaceBPF:
		return exposure{"kernel.unprivileged_bpf_disabled", 1, atLeast, &bpfOpen, Warn, OK, "BPF is not there"}
	case &surfaceUffd:
		return exposure{"vm.unprivileged_userfaultfd", 0, atMost, &uffdOpen, Warn, OK, "userfaultfd is not there"}
	case &surfacePerf:
		return exposure{"kernel.perf_event_paranoid", 2, atLeast, &perfOpen, Warn, OK, "profiling is not there"}
	case &surfaceDmesg:
		return exposure{"kernel.dmesg_restrict", 1, atLeast, &dmesgOpen, Info, Info, "the kernel log is open"}
	case &surfaceKptr:
		return exposure{"kernel.kptr_restrict", 1, atLeast, &kptrOpen, Info, Info, "addresses are shown"}
	case &surfaceTiocsti:
		return exposure{"dev.tty.legacy_tiocsti", 0, atMost, &tiocstiOpen, Info, Info, "the call is there, before Linux 6.2"}
	}
	return exposure{"kernel.yama.ptrace_scope", 1, atLeast, &ptraceOpen, Info, Info, "Yama is not there"}
}

func checkSurfaceSysctl(e *entry) func(*sight) Check {
	return func(s *sight) Check {
		x := exposureOf(e)
		n, ok := s.o.sysctl(x.setting)
		if !ok {
			seen := x.setting + " cannot be read: " + x.absentIs
			if x.absent == OK {
				return e.ok(seen)
			}
			return s.say(e, x.words, x.absent, seen)
		}
		seen := fmt.Sprintf("%s is %d", x.setting, n)
		if x.order == atLeast && n >= x.closed || x.order == atMost && n <= x.closed {
			return e.ok(seen)
		}
		return s.say(e, x.words, x.open, seen)
	}
}

func checkCorePattern(s *sight) Check {
	p := s.o.text("/proc/sys/kernel/core_pattern")
	seen := fmt.Sprintf("kernel.core_pattern is %q", p)
	if strings.HasPrefix(p, "|") {
		return s.say(&surfaceCorePipe, &corePiped, Info, seen)
	}
	return surfaceCorePipe.ok(seen)
}

func checkVulnerabilities(s *sight) Check {
	dir := "/sys/devices/system/cpu/vulnerabilities"
	files, err := os.ReadDir(s.o.real(dir))
	if err != nil {
		return surfaceCPU.info(dir + " cannot be read")
	}
	var open []string
	for _, f := range files {
		if strings.HasPrefix(s.o.text(dir+"/"+f.Name()), "Vulnerable") {
			open = append(open, f.Name())
		}
	}
	if len(open) > 0 {
		return s.say(&surfaceCPU, &cpuVulnerable, Info, "not mitigated: "+strings.Join(open, ", "))
	}
	return surfaceCPU.ok(fmt.Sprintf("all %d known ones are mitigated or do not concern it", len(files)))
}

func checkSMT(s *sight) Check {
	n, ok := s.o.number("/sys/devices/system/cpu/smt/active")
	switch {
	case !ok:
		return surfaceSMT.info("/sys/devices/system/cpu/smt/active cannot be read")
	case n == 1:
		return s.say(&surfaceSMT, &smtActive, Info, "simultaneous multithreading is active")
	}
	return surfaceSMT.ok("simultaneous multithreading is not active")
}
