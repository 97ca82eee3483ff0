package host

import (
	"path"
	"strconv"
	"strings"
)

// commands are remedies as an administrator's shell takes them, for the faults
// that commands can mend. Placeholders: {user} quoted, {pid} the shell that
// isolate was called from, {profile} the AppArmor profile of this program. Each
// may be run twice, and all change one setting and its file in /etc that keeps
// it, so that taking the file away takes the change back.
var commands = map[*fault]string{
	&usernsMaxZero: keep("user.max_user_namespaces", "15000"),
	&namespacesZero: `for n in mnt pid net ipc uts; do
	name=user.max_${n}_namespaces
	[ "$(sysctl -n $name)" = 0 ] || continue
	sysctl -w $name=15000
	echo "$name = 15000" > /etc/sysctl.d/60-isolate-$n.conf
done
`,
	&usernsCloneZero: keep("kernel.unprivileged_userns_clone", "1"),
	&memfdForbidden:  keep("vm.memfd_noexec", "1"),
	&usernsApparmorOn: `# It permits user namespaces to whatever is at this path: install isolate
# where only root can write. Two profiles for one path cancel each other.
cat > /etc/apparmor.d/isolate <<'EOF'
{profile}EOF
apparmor_parser -r /etc/apparmor.d/isolate
`,
	&controllerUndelegated: `mkdir -p /etc/systemd/system/user@.service.d
printf '[Service]\nDelegate=cpu cpuset io memory pids\n' > /etc/systemd/system/user@.service.d/delegate.conf
systemctl daemon-reload
# then {user} logs out everywhere and in again
`,
	&controllerDenied: `loginctl enable-linger {user}
`,
	&controllerUnowned: `mkdir -p /sys/fs/cgroup/isolate
echo '+memory +pids +cpu' > /sys/fs/cgroup/cgroup.subtree_control
(cd /sys/fs/cgroup/isolate && chown {user} . cgroup.procs cgroup.subtree_control cgroup.threads)
# the shell isolate was called from, unless its number is somebody else's by
# now; a boot script does this for another one
if [ -n "$(find /proc/{pid} -maxdepth 0 -user {user})" ]; then
	echo {pid} > /sys/fs/cgroup/isolate/cgroup.procs
fi
`,
	&controllerOld: `for c in memory pids cpu cpuacct; do
	[ -d /sys/fs/cgroup/$c ] || continue
	mkdir -p /sys/fs/cgroup/$c/isolate
	chown {user} /sys/fs/cgroup/$c/isolate
	# the shell isolate was called from, unless its number is somebody else's by
	# now; a boot script does this for another one
	if [ -n "$(find /proc/{pid} -maxdepth 0 -user {user})" ]; then
		echo {pid} > /sys/fs/cgroup/$c/isolate/cgroup.procs
	fi
done
`,
	&netDeviceAbsent: `modprobe tun
echo tun > /etc/modules-load.d/isolate.conf
`,
	&netDeviceClosed: `chmod 0666 /dev/net/tun
`,
}

// keep sets a sysctl now and at every boot.
func keep(name, value string) string {
	return "sysctl -w " + name + "=" + value + "\n" +
		"echo '" + name + " = " + value + "' > /etc/sysctl.d/60-isolate-" + strings.ReplaceAll(name, ".", "-") + ".conf\n"
}

// Setup is a shell script for an administrator: the commands behind the
// remedies of what is not in order, each below the check that asks for it. It
// is for reading first. What fails and no command mends stands behind them as a
// comment; with nothing to do it has comments only.
func (r Report) Setup() string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Run as root, after reading it: what isolate misses on this machine.\n" +
		"# Afterwards ask isolate doctor again.\nset -e\n")
	done := map[string]bool{}
	for _, c := range r.Checks {
		if c.commands == "" || done[c.commands] {
			continue
		}
		done[c.commands] = true
		b.WriteString("\n# " + c.ID + ": " + plain(c.What) + "\n" + c.commands)
	}
	if len(done) == 0 {
		b.WriteString("\n# There is nothing that a command could mend.\n")
	}
	for _, c := range r.Checks {
		if c.Status == Fail && c.commands == "" {
			b.WriteString("\n# by hand: " + c.ID + ": " + plain(c.What) + ":\n#   " + plain(c.Remedy) + "\n")
		}
	}
	return b.String()
}

// commandsFor fills the commands of a fault; empty where there are none.
func (s *sight) commandsFor(f *fault) string {
	text := commands[f]
	if strings.Contains(text, "{profile}") && !attachable(s.o.Program) {
		return ""
	}
	user := s.userName()
	if user == "" {
		user = strconv.Itoa(s.o.UID)
	}
	return strings.NewReplacer(
		"{user}", "'"+strings.ReplaceAll(user, "'", `'\''`)+"'",
		"{pid}", strconv.Itoa(s.o.Caller),
		"{profile}", profile(s.o.Program),
	).Replace(text)
}

// attachable says whether AppArmor and a shell take a path literally.
func attachable(p string) bool {
	return path.IsAbs(p) && strings.IndexFunc(p, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+", r)
	}) < 0
}

// profile is the AppArmor profile of docs/doctor.md for a program.
func profile(program string) string {
	return `abi <abi/4.0>,
include <tunables/global>

profile isolate ` + program + ` flags=(unconfined) {
  userns,

  include if exists <local/isolate>
}
`
}
