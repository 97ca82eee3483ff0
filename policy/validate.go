package policy

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// Bounds of the limits. A limit outside them is a mistake that is worth a
// refusal: nothing can run below the lower ones, and no machine has more than
// the upper ones.
const (
	// MinMemory: /bin/true alone was measured to need up to 2.3 MiB in a
	// memory cgroup, and page tables, the init and the tmpfs come on top.
	MinMemory = 4 * MiB
	// MinDisk: tmpfs is counted in pages, which have 64 KiB on some arm64 kernels.
	MinDisk = 64 * KiB
	// MaxSize bounds Memory, Disk and Output: what 52 bits of physical
	// address reach, the most x86-64 and arm64 have.
	MaxSize = 4096 * TiB
	// MinCPUs is the smallest share the kernel takes: 1 ms of quota in the
	// usual period of 100 ms (Documentation/admin-guide/cgroup-v2, cpu.max).
	MinCPUs = 0.01
	// MaxCPUs is the most the kernel can be built for (NR_CPUS of x86-64).
	MaxCPUs = 8192
	// MaxPIDs is PID_MAX_LIMIT of a 64-bit kernel (proc(5), pid_max).
	MaxPIDs = 1 << 22
	// MaxInodes: a tmpfs inode costs about 1 KiB of kernel memory, so these
	// are 16 GiB.
	MaxInodes = 1 << 24
	// MinFiles: three standard streams and one for the dynamic loader.
	MinFiles = 4
	// MaxFiles is the kernel's own upper limit fs.nr_open (proc(5)).
	MaxFiles = 1 << 20
	// MinTime: a start alone takes longer, and the kernel counts processor
	// time in ticks of 1 ms at best.
	MinTime = time.Millisecond
	// MaxWall: a run is one program's work, not a service. What is forgotten
	// is gone after a day.
	MaxWall = 24 * time.Hour
	// MaxCPUTime is a day of MaxCPUs processors; more can never be reached.
	MaxCPUTime = MaxWall * MaxCPUs
	// MaxGrace bounds how far a run that ignores SIGTERM outlives its limit.
	MaxGrace = 5 * time.Minute
	// MaxBinds bounds the mounts that each start has to make.
	MaxBinds = 256
	// MaxEnv bounds all "NAME=VALUE" with their ending zero bytes: the kernel
	// takes no longer string (MAX_ARG_STRLEN, 32 pages, execve(2)), and the
	// arguments need room too.
	MaxEnv = 128 * KiB
	// MaxHostname is one less than the kernel's HOST_NAME_MAX and the longest
	// label of RFC 1123.
	MaxHostname = 63
	// MaxPath is the longest path: PATH_MAX without its ending zero byte.
	MaxPath = 4095
)

// Surroundings is what Validate has to know of the user, as the caller found
// it. An empty field means that there is none.
type Surroundings struct {
	// RuntimeDir is $XDG_RUNTIME_DIR: the sockets of the user's daemons.
	RuntimeDir string
	// Home is the home directory of the user.
	Home string
	// SSHAuthSock is $SSH_AUTH_SOCK: the socket of the user's key agent.
	SSHAuthSock string
	// StateDir is where isolate itself keeps sockets and logs.
	StateDir string
}

// Validate lists everything that is wrong with the policy by itself, in the
// order of the fields. Empty means that nothing is; whether this machine can
// enforce it is package plan's question. It looks at no file: a source that
// is a symbolic link is to be given to Dangerous again once it is resolved.
func (p Policy) Validate(s Surroundings) []Problem {
	return slices.Concat(p.checkFields(), p.checkTogether(), p.checkDangers(s))
}

// problems collects what the checks find.
type problems []Problem

func (ps *problems) add(field, what, hint string) {
	*ps = append(*ps, Problem{Field: field, What: what, Hint: hint})
}

// checkFields finds what is wrong whatever the user consents to, and whatever
// the other fields are.
func (p Policy) checkFields() []Problem {
	var ps problems
	if p.Profile < 0 || int(p.Profile) >= len(profileNames) {
		ps.add("profile", fmt.Sprintf("cannot use profile %d: no profile has that number", int(p.Profile)), suggest("", profileNames))
	}
	if p.EndOnOutput < 0 || int(p.EndOnOutput) >= len(endOnOutputNames) {
		ps.add("end-on-output", fmt.Sprintf("cannot use end-on-output %d: no answer has that number", int(p.EndOnOutput)), suggest("", endOnOutputNames))
	}
	if p.Rootfs != "" {
		ps.rootfs(p.Rootfs)
	}
	if p.Hostname != "" {
		ps.hostname(p.Hostname)
	}
	ps.limits(p)
	ps.binds(p.ReadOnly)
	ps.env(p.Env)
	ps.allow(p.Allow)
	if x := p.Preload.Check(); x != nil {
		ps.add("preload", x.What, x.Hint)
	}
	for _, x := range p.Net.Check() {
		ps.add("net."+x.Field, x.What, x.Hint)
	}
	return ps
}

// limits checks every number. The zero value is the default and always right.
func (ps *problems) limits(p Policy) {
	within(ps, "memory", p.Memory, MinMemory, MaxSize, DefaultMemory.String())
	if p.CPUs != 0 && !(p.CPUs >= MinCPUs && p.CPUs <= MaxCPUs) { // so written, it refuses NaN too
		cause := fmt.Sprintf("it is not between %v and %v", MinCPUs, MaxCPUs)
		if math.IsNaN(p.CPUs) {
			cause = "it is not a number"
		}
		ps.add("cpus", fmt.Sprintf("cannot limit cpus to %v: %s", p.CPUs, cause),
			fmt.Sprintf("write %v to %v, or leave it out for no limit", MinCPUs, MaxCPUs))
	}
	within(ps, "pids", p.PIDs, 1, MaxPIDs, fmt.Sprint(DefaultPIDs))
	within(ps, "disk", p.Disk, MinDisk, MaxSize, DefaultDisk.String())
	within(ps, "inodes", p.Inodes, 1, MaxInodes, fmt.Sprint(DefaultInodes))
	within(ps, "files", p.Files, MinFiles, MaxFiles, fmt.Sprint(DefaultFiles))
	within(ps, "output", p.Output, 1, MaxSize, DefaultOutput.String())
	within(ps, "time", span(p.Wall), span(MinTime), span(MaxWall), span(DefaultWall).String())
	within(ps, "cpu-time", span(p.CPUTime), span(MinTime), span(MaxCPUTime), "no limit of its own")
	within(ps, "grace", span(p.Grace), span(MinTime), span(MaxGrace), "none")
}

// span prints a duration the way ParseDuration is most often written.
type span time.Duration

func (s span) String() string { return shortDuration(time.Duration(s)) }

// within checks one limit against its bounds.
func within[T ~int | ~int64](ps *problems, field string, v, least, most T, byDefault string) {
	var cause string
	switch {
	case v == 0 || v >= least && v <= most:
		return
	case v < 0:
		cause = "it is negative"
	case v < least:
		cause = fmt.Sprintf("it is below the smallest useful, %v", least)
	default:
		cause = fmt.Sprintf("it is above the largest allowed, %v", most)
	}
	ps.add(field, fmt.Sprintf("cannot limit %s to %v: %s", field, v, cause),
		fmt.Sprintf("write %v to %v, or leave it out for the default (%s)", least, most, byDefault))
}

func (ps *problems) rootfs(dir string) {
	switch cause, hint := pathForm(dir); {
	case cause != "":
		ps.add("rootfs", fmt.Sprintf("cannot use rootfs %s: %s", quote(dir), cause), hint)
	case dir == "/":
		ps.add("rootfs", `cannot use rootfs "/": it is the whole host`, "leave it out: the host's /usr is then shown, and nothing private")
	}
}

// pathForm says what is wrong with the form of an absolute path; "" is nothing.
func pathForm(p string) (cause, hint string) {
	switch {
	case p == "":
		return "it is empty", "write the whole path from /"
	case strings.Contains(p, "\x00"):
		return "it has a zero byte", "take out the zero byte"
	case len(p) > MaxPath:
		return fmt.Sprintf("it has more than %d bytes", MaxPath), "use a shorter path"
	case !path.IsAbs(p):
		return "it is not absolute", "write the whole path from /"
	case hasDotDot(p):
		return `it has ".."`, "write the path it leads to"
	case path.Clean(p) != p:
		return "it has needless slashes or dots", "write " + quote(path.Clean(p))
	}
	return "", ""
}

// hostname checks RFC 1123: labels of letters, digits and inner hyphens.
func (ps *problems) hostname(name string) {
	cause := ""
	for label := range strings.SplitSeq(name, ".") {
		outside := strings.Trim(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
		if label == "" || outside != "" || label[0] == '-' || label[len(label)-1] == '-' {
			cause = "it is not letters, digits and inner hyphens, in parts with dots between (RFC 1123)"
		}
	}
	if len(name) > MaxHostname {
		cause = fmt.Sprintf("it has more than %d characters", MaxHostname)
	}
	if cause != "" {
		ps.add("hostname", fmt.Sprintf("cannot use hostname %s: %s", quote(name), cause),
			fmt.Sprintf("write a name such as %q", DefaultHostname))
	}
}

// ownPaths are the places the sandbox makes new for each run. A bind there
// would hide them, and one beneath them would be hidden.
var ownPaths = []string{"/proc", "/sys", "/dev", "/workspace", "/tmp", ownHome}

// ownHome is the program's home directory, which stands in the workspace.
const ownHome = "/home/sandbox"

func (ps *problems) binds(binds []Bind) {
	if len(binds) > MaxBinds {
		ps.add("read-only", fmt.Sprintf("cannot bind %d paths: the most is %d", len(binds), MaxBinds), "bind a directory above several of them")
		return
	}
	first := map[string]int{}
	for i, b := range binds {
		field := fmt.Sprintf("read-only[%d]", i)
		if cause, hint := pathForm(b.Source); cause != "" {
			ps.add(field+".source", fmt.Sprintf("cannot bind %s: %s", quote(b.Source), cause), hint)
			if b.Target == "" {
				continue // the target is the same path and would be told twice
			}
		}
		if cause, hint := targetForm(b.Inside()); cause != "" {
			ps.add(field+".target", fmt.Sprintf("cannot bind %s at %s: %s", quote(b.Source), quote(b.Inside()), cause), hint)
			continue
		}
		if j, ok := first[b.Inside()]; ok {
			ps.add(field+".target", fmt.Sprintf("cannot bind %s at %s: %s is there already", quote(b.Source), quote(b.Inside()), quote(binds[j].Source)),
				"give one of them another target")
			continue
		}
		first[b.Inside()] = i
	}
}

// targetForm says what is wrong with a path inside; "" is nothing.
func targetForm(target string) (cause, hint string) {
	if cause, hint := pathForm(target); cause != "" {
		return cause, hint
	}
	const elsewhere = `write another target, such as "/data"`
	if target == "/" {
		return "it would hide the whole sandbox", elsewhere
	}
	if target == "/var/run" || beneath(target, "/var/run") {
		return "/var/run is a link to /run there", "write " + quote(strings.TrimPrefix(target, "/var"))
	}
	for _, own := range ownPaths {
		if target == own || beneath(own, target) {
			return fmt.Sprintf("it would hide the sandbox's own %s", own), elsewhere
		}
		if beneath(target, own) {
			return fmt.Sprintf("the sandbox's own %s would hide it", own), elsewhere
		}
	}
	return "", ""
}

func (ps *problems) env(env map[string]string) {
	total := Size(0)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		total += Size(len(name) + len(env[name]) + len("=\x00"))
		if cause, hint := envForm(name, env[name]); cause != "" {
			ps.add("env."+name, fmt.Sprintf("cannot set variable %s: %s", quote(name), cause), hint)
		}
	}
	if total > MaxEnv {
		ps.add("env", fmt.Sprintf("cannot set an environment of %s: the most is %s", total, MaxEnv), "put large values into a file")
	}
}

func (ps *problems) allow(allow []Weakening) {
	for i, w := range allow {
		field := fmt.Sprintf("allow[%d]", i)
		if _, err := ParseWeakening(string(w)); err != nil {
			ps.add(field, fmt.Sprintf("cannot allow %s: no weakening has that name", quote(string(w))), suggest(string(w), weakeningNames()))
		} else if slices.Contains(allow[:i], w) {
			ps.add(field, fmt.Sprintf("cannot allow %s twice", quote(string(w))), "remove one of them")
		}
	}
}

// checkTogether finds settings that contradict each other.
//
// Two upper limits of which one is met first do not: cpu-time above what time
// and cpus allow is only unneeded, and arises whenever a flag tightens a
// policy file. Disk above memory does: files live in memory, so the policy
// promises room the program dies of using. The default of disk is nobody's
// promise and so is left alone.
func (p Policy) checkTogether() []Problem {
	var ps problems
	d := p.WithDefaults()
	if d.Disk > d.Memory && d.Disk != DefaultDisk {
		ps.add("disk", fmt.Sprintf("cannot offer a disk of %s within a memory of %s: files are held in memory", d.Disk, d.Memory),
			"raise memory above disk, or lower disk below memory")
	}
	return ps
}

// checkDangers finds host paths that give the host away, unless the author
// consents to that.
func (p Policy) checkDangers(s Surroundings) []Problem {
	if slices.Contains(p.Allow, UnsafeBinds) {
		return nil
	}
	var ps problems
	check := func(field, source string) {
		if cause, _ := pathForm(source); cause != "" {
			return // told by checkFields
		}
		if why, bad := Dangerous(source, s); bad {
			ps.add(field, fmt.Sprintf("cannot show %s inside: %s", quote(source), why),
				fmt.Sprintf("name a narrower directory, or consent with allow = [%q]", UnsafeBinds))
		}
	}
	if p.Rootfs != "" && p.Rootfs != "/" {
		check("rootfs", p.Rootfs)
	}
	for i, b := range p.ReadOnly {
		check(fmt.Sprintf("read-only[%d].source", i), b.Source)
	}
	return ps
}
