package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// habit is a flag of another tool that starts containers: what to write here.
type habit struct {
	hint string
	// values is how many values follow the flag.
	values int
}

// habits are names of flags, with space between, that mean the same.
type habits struct {
	names string
	habit
}

// findHabit finds what a flag means, typed in any of its names.
func findHabit(list []habits, name string) (habit, bool) {
	for _, h := range list {
		if slices.Contains(strings.Fields(h.names), name) {
			return h.habit, true
		}
	}
	return habit{}, false
}

// habitOf finds what people mean by a flag that another tool has, typed in any
// of its names, at a command with these flags. The rules of words.go hold.
func habitOf(name string, flags *pflag.FlagSet) (habit, bool) {
	terminal, input := "write --tty for a terminal, or \"isolate shell\" to work in one", "write --stdin to connect standard input, or --tty for a terminal"
	if flags.Lookup("tty") == nil {
		terminal = "leave it out: a terminal is given by \"isolate shell\", and by \"isolate exec --tty\""
		input = "write --stdin to connect standard input"
	}
	const files = "write --in to copy files in, --out to copy them out, or --ro to show a host path read-only; nothing of the host can be written to"
	const overlay = "write --in DIR to work on a copy, and --out DIR to have what became of it"
	return findHabit([]habits{
		{"-it -ti -t", habit{hint: terminal}},
		{"-i --interactive", habit{hint: input}},
		{"--rm --init --run --cleanup", habit{hint: "leave it out: a sandbox is made for the command, and nothing of it is ever left"}},
		{"-v --volume --mount --bindmount --bindmount_ro -R -B --copy --upload --whitelist", habit{files, 1}},
		{"--bind --ro-bind --dev-bind --bind-try --ro-bind-try --dev-bind-try", habit{files, 2}},
		{"--file --bind-data --ro-bind-data", habit{"write --in FILE:NAME: it is copied to /workspace/NAME", 2}},
		{"--overlay-src --tmp-overlay --ro-overlay", habit{overlay, 1}},
		{"--overlay", habit{overlay, 3}},
		{"--symlink", habit{"leave it out: the usual links are there; a program makes its own in /workspace and /tmp", 2}},
		{"--chroot", habit{"write --rootfs DIR", 1}},
		{"-e -E", habit{"write --env NAME=VALUE, or --env-from NAME to copy yours", 1}},
		{"--setenv", habit{"write --env NAME=VALUE, or --env-from NAME to copy yours", 2}},
		{"--keep_env --full-env", habit{hint: "write --env-from NAME for each variable that is to be copied"}},
		{"--unsetenv --rmenv", habit{"leave it out: the environment is built from nothing", 1}},
		{"--env-file", habit{"write --env NAME=VALUE for each, or put them into a --policy file", 1}},
		{"--config --args", habit{"write --policy FILE (docs/policy.md)", 1}},
		{"-w --chdir --cwd --dir --working-dir", habit{"write --workdir PATH", 1}},
		{"-m --mem --memory-swap --memory-limit --mem-limit --cg-mem --rlimit-as --rlimit_as --cgroup_mem_max", habit{"write --memory SIZE; nothing is ever swapped", 1}},
		{"--cpu --cpu-shares --cpu-quota --cpuset --cpuset-cpus --max_cpus --cgroup_cpu_ms_per_sec", habit{"write --cpus NUMBER", 1}},
		{"--pids-limit --nproc --proc-limit --processes --rlimit-nproc --rlimit_nproc --cgroup_pids_max", habit{"write --pids COUNT", 1}},
		{"--open-files --rlimit-nofile --rlimit_nofile", habit{"write --files COUNT", 1}},
		{"--ulimit", habit{"write --files COUNT for open files, or another limit by its name", 1}},
		{"--timeout --wall-time --time_limit --time-limit", habit{"write --time DURATION", 1}},
		{"--extra-time --stop-timeout", habit{"write --grace DURATION: the time from SIGTERM to SIGKILL", 1}},
		{"--cpu-limit --rlimit-cpu --rlimit_cpu", habit{"write --cpu-time DURATION", 1}},
		{"--max-output --output-limit", habit{"write --output SIZE", 1}},
		{"--fsize --quota --rlimit-fsize --rlimit_fsize", habit{"write --disk SIZE: it bounds every file, too", 1}},
		{"--stack --rlimit_stack", habit{"leave it out: a program has 8M of stack and may raise it (ulimit -s) as far as --memory goes", 1}},
		{"--core --rlimit_core", habit{"leave it out: no core is ever written", 1}},
		{"--input --stdin-file", habit{"write --stdin and < FILE, or --in FILE to copy a file in", 1}},
		{"--stdout --stderr --output-dir", habit{"redirect the output, or write --out DIR to copy files out", 1}},
		{"--stderr-to-stdout", habit{hint: "leave it out and write 2>&1"}},
		{"-q --quiet --silent --really_quiet -Q", habit{hint: "leave it out: isolate says only what went wrong, on standard error"}},
		{"--verbose", habit{hint: "leave it out: --meta FILE has how it ended, --explain the plan"}},
		{"--json", habit{hint: "write --meta FILE: the result as JSON"}},
		{"--json-status-fd --info-fd", habit{"write --meta N: the result as JSON", 1}},
		{"--secret", habit{"write --env-from NAME; for a secret that the program itself must not see, inject in a policy file (docs/network.md)", 1}},
		{"--proxy", habit{"leave it out: --net allow:HOST names what may be reached, and inside there is a proxy (docs/network.md)", 1}},
		{"--shm-size --tmpfs --storage-opt --tmp --tmpfsmount --size", habit{"write --disk SIZE: it bounds /workspace, /tmp and /dev/shm together", 1}},
		{"--network --net --dns --add-host", habit{"leave it out: a sandbox has no network, unless --net allow:HOST names what it may reach; a tool of the host needs none (\"isolate run --tool\")", 1}},
		{"--share-net --disable_clone_newnet", habit{hint: "leave it out: no program shares the host's network; --net allow:HOST names what it may reach, --net full is every public address"}},
		{"-p --publish --ports --port", habit{"leave it out: nothing outside reaches a sandbox", 1}},
		{"--unshare-net --unshare-all --die-with-parent --read-only --no-new-privs --no-network --unshare-user --unshare-user-try --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup --unshare-cgroup-try --disable-userns --clearenv --new-session --cg --private --private-tmp --private-dev --private-cache --noprofile --noroot --nogroups --nonewprivs --nosound --no3d --nodbus --iface_no_lo --use_cgroupv2", habit{hint: "leave it out: it is always so"}},
		{"--proc --dev", habit{"leave it out: a sandbox has its own /proc and /dev", 1}},
		{"--blacklist --private-etc --private-bin", habit{"leave it out: a program sees nothing of the host but /usr, parts of /etc and what --ro shows", 1}},
		{"--cap-drop --caps.drop --security-opt", habit{"leave it out: a program has no capability, and its system calls are chosen by --profile", 1}},
		{"--seccomp --seccomp.drop --seccomp.keep --seccomp_string --seccomp_policy --protocol", habit{"write --profile NAME; a filter of one's own cannot be given", 1}},
		{"--privileged", habit{hint: "leave it out: no program gets a privilege"}},
		{"--cap-add --device --gpus", habit{"leave it out: no program gets a capability or a device", 1}},
		{"-u --user --uid --gid --group", habit{"leave it out: a program always has an id of its own that owns nothing here", 1}},
		{"-d --detach", habit{hint: "put \"&\" behind the command"}},
		{"--name --keep --box-id --join", habit{"leave it out: a sandbox ends with its command; \"isolate sandbox new\" makes one that is kept", 1}},
		{"--sandbox --session", habit{"write isolate sandbox run SANDBOX -- PROGRAM to work in one that is kept", 1}},
		{"--entrypoint --image", habit{"write the program behind \"--\", and --rootfs DIR for another root file system", 1}},
	}, name)
}
