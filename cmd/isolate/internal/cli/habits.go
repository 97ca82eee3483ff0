package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// habit is a flag of another tool that starts containers: what to write here.
type habit struct {
	hint string
	// value says that the flag is followed by one.
	value bool
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
	return findHabit([]habits{
		{"-it -ti -t", habit{hint: terminal}},
		{"-i --interactive", habit{hint: input}},
		{"--rm", habit{hint: "leave it out: nothing of a sandbox is ever left"}},
		{"-v --volume --mount --bind --ro-bind --bindmount_ro --copy --upload", habit{"write --in to copy files in, --out to copy them out, or --ro to show a host path read-only; nothing of the host can be written to", true}},
		{"-e -E --setenv", habit{"write --env NAME=VALUE, or --env-from NAME to copy yours", true}},
		{"--env-file", habit{"write --env NAME=VALUE for each, or put them into a --policy file", true}},
		{"-w --chdir --cwd --dir --working-dir", habit{"write --workdir PATH", true}},
		{"-m --mem --memory-swap --memory-limit --mem-limit --rlimit_as --cgroup_mem_max", habit{"write --memory SIZE; nothing is ever swapped", true}},
		{"--cpu --cpu-shares --cpu-quota --cpuset --cpuset-cpus", habit{"write --cpus NUMBER", true}},
		{"--pids-limit --nproc --proc-limit --rlimit_nproc --cgroup_pids_max", habit{"write --pids COUNT", true}},
		{"--ulimit", habit{"write --files COUNT for open files, or another limit by its name", true}},
		{"--timeout --wall-time --time_limit --time-limit", habit{"write --time DURATION", true}},
		{"--cpu-limit --rlimit_cpu", habit{"write --cpu-time DURATION", true}},
		{"--max-output --output-limit", habit{"write --output SIZE", true}},
		{"--fsize --rlimit_fsize", habit{"write --disk SIZE: it bounds every file, too", true}},
		{"--stack --rlimit_stack", habit{"leave it out: a program has 8M of stack and may raise it to 64M; --memory bounds it", true}},
		{"--input --stdin-file", habit{"write --stdin and < FILE, or --in FILE to copy a file in", true}},
		{"--stdout --stderr --output-dir", habit{"redirect the output, or write --out DIR to copy files out", true}},
		{"-q --quiet --silent", habit{hint: "leave it out: isolate says only what went wrong, on standard error"}},
		{"--json", habit{hint: "write --meta FILE: the result as JSON"}},
		{"--secret", habit{"write --env-from NAME; for a secret that the program itself must not see, inject in a policy file (docs/network.md)", true}},
		{"--proxy", habit{"leave it out: --net allow:HOST names what may be reached, and inside there is a proxy (docs/network.md)", true}},
		{"--shm-size --tmpfs --storage-opt --tmp --tmpfsmount", habit{"write --disk SIZE: it bounds /workspace, /tmp and /dev/shm together", true}},
		{"--network --net --dns --add-host", habit{"leave it out: a sandbox has no network, unless --net allow:HOST names what it may reach; a tool of the host needs none (\"isolate run --tool\")", true}},
		{"-p --publish --ports", habit{"leave it out: nothing outside reaches a sandbox", true}},
		{"--unshare-net --unshare-all --die-with-parent --read-only --init --no-new-privs --no-network --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup --clearenv --new-session", habit{hint: "leave it out: it is always so"}},
		{"--cap-drop --security-opt --seccomp", habit{"leave it out: a program has no capability, and its system calls are chosen by --profile", true}},
		{"--privileged", habit{hint: "leave it out: no program gets a privilege"}},
		{"--cap-add --device --gpus", habit{"leave it out: no program gets a capability or a device", true}},
		{"-u --user", habit{"leave it out: a program always has an id of its own that owns nothing here", true}},
		{"-d --detach", habit{hint: "put \"&\" behind the command"}},
		{"--name --keep", habit{"leave it out: a sandbox ends with its command; \"isolate sandbox new\" makes one that is kept", true}},
		{"--entrypoint --image", habit{"write the program behind \"--\", and --rootfs DIR for another root file system", true}},
	}, name)
}
