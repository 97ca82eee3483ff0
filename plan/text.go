package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/isolate-run/isolate/policy"
)

// Text is the plan for people, as `isolate exec --explain` prints it: what the
// program gets, what limits it, what was weakened.
func (p Plan) Text() string {
	var b strings.Builder
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("plan", "%s", p.Digest)
	p.networkText(line)
	line("namespaces", "%s", join(p.Namespaces))
	line("identity", "%s: user %d inside is user %d of the host", p.Identity.Mode, p.Identity.UID, p.Identity.HostUID)
	line("root", "%s, read-only", p.Root)
	for _, s := range p.View.Stages {
		if strings.HasPrefix(s.Name, "/s/ro") {
			line("", "%s, read-only", s.Source)
		}
	}
	proc := fmt.Sprintf("fresh, %d files and %d directories covered", len(p.Proc.MaskedFiles), len(p.Proc.MaskedDirs))
	if p.Proc.PIDsOnly {
		proc = "fresh, processes only"
	}
	line("proc", "%s", proc)
	line("writable", "/workspace, /tmp, /dev/shm, %s: %s and %d files together", p.Home, policy.Size(p.Disk), p.Inodes)
	if p.Preload != nil {
		line("preload", "%s: programs are forked from it; their memory is laid out alike", p.Preload)
	}
	if p.Bridge {
		line("tools", "the host's, by files in /workspace/_rpc")
	}
	line("privilege", "no capability in any of the five sets, no_new_privs, no further namespace")
	notify := "refused calls are recorded"
	if !p.Notify {
		notify = "refused calls are not recorded"
	}
	line("system calls", "profile %s (%s); %s", p.Profile, p.FilterDigest, notify)
	line("environment", "%s", strings.Join(names(p.Env), " "))
	l := p.Limits
	line("limits by", "%s", l.By)
	line("memory", "%s, no swap", policy.Size(l.Memory))
	line("processes", "%d", l.PIDs)
	line("processors", "%s", orNone(l.CPUs > 0, fmt.Sprintf("%g", l.CPUs)))
	line("wall time", "%s", l.Wall)
	line("cpu time", "%s", orNone(l.CPUTime > 0, l.CPUTime.String()))
	line("grace", "%s", grace(l.Grace))
	end := "the rest is dropped and counted"
	if l.EndOnOutput {
		end = "more ends the run"
	}
	line("output", "%s a stream; %s", policy.Size(l.Output), end)
	for _, r := range p.Rlimits {
		line("rlimit", "%s %d (hard %d)", r.Name, r.Soft, r.Hard)
	}
	for _, w := range p.Weakenings {
		line("weakened", "%s", w)
	}
	return b.String()
}

func join[T ~string](list []T) string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = string(v)
	}
	return strings.Join(s, " ")
}

// names are the names of "K=V" pairs: values may be secrets.
func names(env []string) []string {
	out := make([]string, len(env))
	for i, kv := range env {
		out[i], _, _ = strings.Cut(kv, "=")
	}
	return out
}

func grace(d time.Duration) string {
	if d > 0 {
		return d.Round(time.Millisecond).String()
	}
	return "none: killed at once"
}

func orNone(have bool, s string) string {
	if have {
		return s
	}
	return "not limited"
}
