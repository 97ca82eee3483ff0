package plan

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/preload"
	"github.com/isolate-run/isolate/rootfs"
	"github.com/isolate-run/isolate/seccompprofile"
)

// Facts is what this machine can do, as far as a plan depends on it.
type Facts struct {
	EUID, EGID int
	// CPUs is the number of processors the caller may use.
	CPUs int
	// Caller are the limits of the process that asks.
	Caller ProcessLimits
	// CoreHandler is whether kernel.core_pattern hands crash dumps to a program
	// or a socket of the host.
	CoreHandler Have
	// LimitsBy is what can enforce limits ("cgroup2", "cgroup1", "hybrid"),
	// "" if nothing can. Memory, PIDs, CPU and CPUTime say which it has.
	LimitsBy                   string
	Memory, PIDs, CPU, CPUTime Have
	// LimitsProblem says what is wrong when a controller is missing.
	LimitsProblem Problem
	// Notify is seccomp user notification, NotifyKillable its killable form.
	Notify, NotifyKillable Have
	// Network says why no sandbox can have a network; without a What it can. It
	// is asked only if one is wanted; nil means that it can.
	Network func() Problem
	// IPv6 is whether the kernel has it.
	IPv6 Have
	// OwnPorts are the TCP ports of isolate itself, which no policy may grant.
	OwnPorts []int
	// Surroundings are the paths that give the host away.
	Surroundings policy.Surroundings
	// Source is where the file view looks. Host is what it finds there; nil has
	// it looked at for each plan.
	Source rootfs.Source
	Host   Look
	// Masks are the files and directories of /proc to cover.
	MaskedFiles, MaskedDirs []string
}

// Look says what the file view finds on the host.
type Look func() *rootfs.Host

// LookAhead begins to look, for the only plan that is going to be made: it is
// done beside what else has to be found out first.
func LookAhead() Look {
	look := sync.OnceValue(func() *rootfs.Host { return rootfs.Look(rootfs.Source{}) })
	go look()
	return look
}

// Have is whether the machine has a thing.
type Have bool

// Answers to Have.
const (
	Yes Have = true
	No  Have = false
)

// user is the name of the program's user inside.
const user = "sandbox"

// maxReadOnlyFile bounds a file given by ReadOnly, in bytes: it is copied into
// memory once per cell. A directory is not copied.
const maxReadOnlyFile = 64 << 20

// Resolve makes the plan. The error is a *Refusal, or one of our own faults.
func Resolve(p policy.Policy, f Facts) (Plan, error) {
	r := &resolver{policy: p.WithDefaults(), facts: f}
	for _, x := range p.Validate(f.Surroundings) {
		r.refuse(x.What, "", x.Hint) // What says the cause, too
	}
	r.limits()
	r.network()
	files, binds := r.readOnly()
	r.identity()
	r.root(files, binds)
	if err := r.filter(); err != nil && len(r.problems) == 0 { // or they say why
		return Plan{}, err
	}
	if len(r.problems) > 0 {
		return Plan{}, &Refusal{Problems: r.problems}
	}
	return r.finish()
}

type resolver struct {
	policy   policy.Policy
	facts    Facts
	plan     Plan
	problems []Problem
}

func (r *resolver) refuse(what, rule, remedy string) {
	r.problems = append(r.problems, Problem{What: what, Rule: rule, Remedy: remedy})
}

// weaken records a weakening that is consented to, or refuses.
func (r *resolver) weaken(w policy.Weakening, what, rule, remedy string) {
	if r.consented(w) {
		return
	}
	if consent := "--allow " + string(w); !strings.Contains(remedy, consent) {
		remedy += ", or consent with " + consent
	}
	r.refuse(what, rule, remedy)
}

func (r *resolver) limits() {
	p, f := r.policy, r.facts
	by := f.LimitsBy
	var missing []string
	for _, c := range []struct {
		name string
		have Have
		need bool
	}{
		{"memory", f.Memory, true},
		{"pids", f.PIDs, true},
		{"cpuacct", f.CPUTime, p.CPUTime > 0},
	} {
		if c.need && c.have == No {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		by = "rlimits"
		x := f.LimitsProblem
		if missing[0] == "cpuacct" { // only that, which nobody needs without CPUTime
			x = Problem{
				What:   "cannot limit the processor time of the whole process tree",
				Rule:   "its group belongs to somebody else",
				Remedy: "leave --cpu-time out (--time limits the wall clock), or let an administrator give you a group of cpuacct (docs/doctor.md)",
			}
		}
		r.weaken(policy.WeakLimits, x.What, "no usable controller "+strings.Join(missing, ", ")+": "+x.Rule, x.Remedy)
	}
	if p.CPUs > 0 && f.CPU == No {
		r.refuse(fmt.Sprintf("cannot limit processors to %g", p.CPUs), "no usable cpu controller", "leave --cpus out, or see isolate doctor")
	}
	r.plan.Limits = Limits{
		By: by, Memory: int64(p.Memory), PIDs: p.PIDs, CPUs: p.CPUs, Wall: p.Wall, CPUTime: p.CPUTime,
		Grace: p.Grace, Output: int64(p.Output), EndOnOutput: p.EndOnOutput == policy.EndRun,
	}
	r.plan.Rlimits = r.inherited(r.within(rlimits(p, by == "rlimits")))
	r.plan.Disk, r.plan.Inodes = int64(p.Disk), p.Inodes
}

// readOnly looks at the sources of binds: links are resolved here, and what
// they resolve to is judged again.
func (r *resolver) readOnly() (files []rootfs.CopiedFile, binds []rootfs.BoundDir) {
	for _, b := range r.policy.ReadOnly {
		h, err := openHandle(b.Source)
		if err != nil {
			r.refuse("cannot show "+strconv.Quote(b.Source)+" read-only", cause(err), "give a path that exists and that you may read")
			continue
		}
		f, d := r.shown(b, h)
		h.close()
		files, binds = append(files, f...), append(binds, d...)
	}
	return files, binds
}

// shown decides how one bind is shown: a directory as it is, a file as a copy.
func (r *resolver) shown(b policy.Bind, h *handle) (files []rootfs.CopiedFile, binds []rootfs.BoundDir) {
	target, name := b.Inside(), strconv.Quote(b.Source)
	what := "cannot show " + name + " read-only"
	switch {
	case !r.safe(what, b.Source, h.real):
	case inView(target) && r.policy.Rootfs == "":
		r.refuse("cannot show "+name+" at "+strconv.Quote(target), "the host view shows that place itself", "leave it out if the program is to see what the host has there, or give another place: "+b.Source+":/data")
	case h.isDir():
		d, err := h.dir(target)
		if err != nil {
			r.refuse(what, cause(err), "make it readable for this user")
			break
		}
		binds = append(binds, d)
	case !h.regular():
		r.refuse(what, "it is a "+h.typeName()+", not a file or directory", "sockets, pipes and devices of the host are never shown; use --in for data")
	case h.stat.Size > maxReadOnlyFile:
		r.refuse(what, fmt.Sprintf("a single file is shown as a copy and may have %d MiB at most", maxReadOnlyFile>>20), "give its directory")
	default:
		content, err := h.read(maxReadOnlyFile)
		if err != nil {
			r.refuse(what, cause(err), "make it readable for this user")
			break
		}
		files = append(files, rootfs.CopiedFile{Target: target, Content: content, Mode: 0o444 | h.stat.Mode&0o111})
	}
	return files, binds
}

// safe judges a host path that the program will see, and what it leads to.
// Validate has refused a path that is dangerous as written and not consented
// to; here its consent is recorded, and what a link leads to is judged.
func (r *resolver) safe(what, given, real string) bool {
	if _, bad := policy.Dangerous(given, r.facts.Surroundings); bad {
		return r.consented(policy.UnsafeBinds)
	}
	why, bad := policy.Dangerous(real, r.facts.Surroundings)
	if !bad {
		return true
	}
	if r.consented(policy.UnsafeBinds) {
		return true
	}
	r.refuse(what, "it leads to "+strconv.Quote(real)+": "+why, "choose another path, or consent with --allow "+string(policy.UnsafeBinds))
	return false
}

// consented tells whether the author consents to a weakening, and records its
// use.
func (r *resolver) consented(w policy.Weakening) bool {
	if !slices.Contains(r.policy.Allow, w) {
		return false
	}
	if !slices.Contains(r.plan.Weakenings, w) {
		r.plan.Weakenings = append(r.plan.Weakenings, w)
	}
	return true
}

// inView tells whether the host view owns a place.
func inView(target string) bool {
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/sys"} {
		if target == p || strings.HasPrefix(target, p+"/") {
			return true
		}
	}
	return false
}

func (r *resolver) identity() {
	r.plan.Namespaces = namespaces.All
	r.plan.Identity = namespaces.Choose(r.facts.EUID, r.facts.EGID)
	r.plan.Home = "/home/" + user
	r.plan.Hostname = r.policy.Hostname
	env := map[string]string{
		"PATH": rootfs.DefaultPath, "HOME": r.plan.Home, "LANG": "C.UTF-8", "TMPDIR": "/tmp",
		"USER": user, "LOGNAME": user, "SHELL": "/bin/sh",
	}
	r.plan.Bridge = r.policy.Bridge == policy.FileBridge
	if r.plan.Bridge {
		maps.Copy(env, bridgeEnv())
		env["PATH"] = bridgePath + ":" + env["PATH"]
	}
	for k, v := range r.policy.Env {
		env[k] = r.plan.Extend(k, env[k], v)
	}
	r.plan.Env = make([]string, 0, len(env))
	for k, v := range env {
		r.plan.Env = append(r.plan.Env, k+"="+v)
	}
	sort.Strings(r.plan.Env)
	if s := r.policy.Preload; !s.IsZero() {
		r.plan.Preload = &s
	}
	r.plan.Proc = Proc{MaskedFiles: r.facts.MaskedFiles, MaskedDirs: r.facts.MaskedDirs}
	r.plan.Terminals = true
	if r.policy.Profile == policy.ProfileStrict {
		r.plan.Proc = Proc{PIDsOnly: true}
		r.plan.Terminals = false
	}
}

// Where the modules of the tool bridge are inside, as packages bridge and
// bridge/stub say; a test of the root package compares.
const (
	bridgeSDK  = "/workspace/_rpc/sdk"
	bridgePath = bridgeSDK + "/bin"
	bridgeNode = bridgeSDK + "/node_modules"
)

// bridgeEnv are the variables by which programs find the bridge.
func bridgeEnv() map[string]string {
	return map[string]string{
		"ISOLATE_BRIDGE": "/workspace/_rpc",
		"PYTHONPATH":     bridgeSDK + "/python", "NODE_PATH": bridgeNode,
	}
}

// Extend is the value of an environment variable that the plan sets to ours
// and the author to theirs. A search path keeps the tools' modules in reach.
func (p Plan) Extend(name, ours, theirs string) string {
	if p.Bridge && ours != "" && (name == "PATH" || name == "PYTHONPATH" || name == "NODE_PATH") {
		if name == "PATH" {
			ours = bridgePath
		}
		return ours + ":" + theirs
	}
	return theirs
}

func (r *resolver) root(files []rootfs.CopiedFile, binds []rootfs.BoundDir) {
	id := rootfs.Identity{UID: r.plan.Identity.UID, GID: r.plan.Identity.GID, User: user, Home: r.plan.Home, Hostname: r.plan.Hostname, Resolver: r.resolver()}
	m := rootfs.Machine{CPUs: max(1, r.facts.CPUs), Memory: r.plan.Limits.Memory}
	if c := r.plan.Limits.CPUs; c > 0 {
		m.CPUs = max(1, min(m.CPUs, int(math.Ceil(c))))
		m.Quota = int(c * 100000)
	}
	if r.plan.Bridge {
		m.NodeModules = bridgeNode
	}
	var err error
	if r.policy.Rootfs == "" {
		r.plan.Root = "host"
		r.plan.View, err = rootfs.HostView(r.host(), id, m, files, binds)
	} else {
		err = r.directory(id, m, files, binds)
	}
	if err != nil {
		r.refuse("cannot prepare the file view", cause(err), "see isolate doctor")
	}
}

func (r *resolver) host() *rootfs.Host {
	if r.facts.Host != nil {
		return r.facts.Host()
	}
	return rootfs.Look(r.facts.Source)
}

// directory makes the view of a directory of the author's.
func (r *resolver) directory(id rootfs.Identity, m rootfs.Machine, files []rootfs.CopiedFile, binds []rootfs.BoundDir) (err error) {
	given := r.policy.Rootfs
	what := "cannot use " + strconv.Quote(given) + " as root"
	const remedy = "give a directory with an unpacked root file system whose mount points are ordinary directories"
	h, err := openHandle(given)
	if err != nil {
		r.refuse(what, cause(err), remedy)
		return nil
	}
	defer h.close()
	if !r.safe(what, given, h.real) {
		return nil
	}
	root, err := h.dir("/")
	if err != nil || !h.isDir() {
		r.refuse(what, "it is not a directory that may be read", remedy)
		return nil
	}
	for _, bad := range rootfs.CheckDir(h.path()) {
		r.refuse(what, bad, remedy)
	}
	r.plan.Root = h.real
	r.plan.View, err = rootfs.DirView(root, r.facts.Source, id, m, files, binds)
	return err
}

func (r *resolver) filter() error {
	compile := seccompprofile.Compile
	if r.facts.Notify == No {
		// nobody would answer what the normal filter asks about
		compile = seccompprofile.CompileSilent
	}
	f, err := compile(r.policy.Profile)
	if err != nil {
		return fmt.Errorf("cannot compile the seccomp profile: %w", err)
	}
	r.plan.Profile = r.policy.Profile.String()
	r.plan.Filter, r.plan.FilterDigest = f.BPF, f.Digest
	r.plan.Notify, r.plan.NotifyKillable = bool(r.facts.Notify), bool(r.facts.NotifyKillable)
	if r.facts.Notify == No {
		r.weaken(policy.NoDenialRecords, "cannot record refused calls",
			"this kernel has no seccomp user notification (Linux 5.7)", "use a newer kernel")
	}
	return nil
}

// finish computes the digests.
func (r *resolver) finish() (_ Plan, err error) {
	var env []string // of the preloaded interpreter
	if r.plan.Preload != nil {
		env = preload.Environment(r.plan.Env)
	}
	if r.plan.CellKey, err = digest(r.plan.View, r.plan.Identity, r.plan.Preload, env); err != nil {
		return Plan{}, fmt.Errorf("cannot digest the plan: %w", err)
	}
	if r.plan.Weakenings == nil {
		r.plan.Weakenings = []policy.Weakening{}
	}
	rest := r.plan
	rest.View = rootfs.View{} // the largest part: CellKey stands for it
	if r.plan.Digest, err = digest(rest); err != nil {
		return Plan{}, fmt.Errorf("cannot digest the plan: %w", err)
	}
	return r.plan, nil
}

func cause(err error) string {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// Syscalls are the system calls that the profiles name, for a check of what the
// linked libseccomp knows.
func Syscalls() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range []policy.Profile{policy.ProfileDefault, policy.ProfileCompat, policy.ProfileStrict} {
		s := seccompprofile.SurveyOf(p)
		for _, list := range [][]seccompprofile.Entry{s.Allowed, s.Special} {
			for _, e := range list {
				for _, name := range e.Calls {
					if !seen[name] {
						seen[name] = true
						out = append(out, name)
					}
				}
			}
		}
	}
	sort.Strings(out)
	return out
}
