package cli

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
)

// The reference: what the help text, the manual pages and the completion
// scripts are made of. The rules of words.go hold, but sentences are sentences.

const (
	rootShort       = "Run programs nobody has read in sandboxes without network"
	execShort       = "Run one program in a sandbox"
	runShort        = "Run a program file in a sandbox, with tools of the host"
	toolsShort      = "Look at the tools that programs are given"
	toolsLsShort    = "List tools"
	toolsCheckShort = "Check tools, their schemas and the modules made of them"
	toolsStubShort  = "Write the modules that programs call tools with to a directory"
	shellShort      = "Work in a sandbox"
	serveShort      = "Keep sandboxes ready, for programs that start at once"
	psShort         = "List what the server runs"
	topShort        = "Watch what the server runs"
	logsShort       = "Show the output of a run of the server"
	killShort       = "End runs of the server"
	rmShort         = "Remove kept sandboxes, and forget runs that have ended"
	poolShort       = "Look at what the server keeps ready"
	poolStatusShort = "Say what the server has and has done"
	doctorShort     = "Say what this machine can enforce, and what is missing"
	versionShort    = "Say which build this is"
	completionShort = "Write the completion script of a shell"
	helpShort       = "Explain a command"
)

const rootLong = `isolate runs a program in a sandbox of its own: no network, no file of the
host beyond the read-only system directories, no capability, limits on memory,
processes, time and disk. It needs no root, no daemon and no set-up, and it
reports exactly how the program ended.`

const execLong = `exec runs one program in a new sandbox and removes the sandbox when the program
has ended, or has been ended by a limit.

The program starts in /workspace, an empty directory in memory. --in copies
files into it, --out copies it out afterwards. The environment is built from
nothing; standard input is empty unless --stdin or --tty is given. On a
terminal the output is shown as text: colours pass, other control sequences
are made visible. Everywhere else its bytes pass unchanged.

Flags stand before the program, and everything behind it is the program's own.
Sizes need a unit (512M, 1.5GiB), durations too (60s, 2m). A flag overrides the
policy file; --ro and --allow add to it.

Exit codes: that of the program; 124 when a time limit ended it; 125 when
nothing ran or isolate could not do its job; 126 and 127 when the program is
not executable or not found; 128+N when signal N ended it.`

const execExample = `  isolate exec -- python3 -c 'print(6*7)'
  isolate exec --in ./src --out ./result --time 10s -- make
  isolate exec --stdin --memory 1G -- sort < words.txt
  isolate exec --explain`

const runLong = `run copies one program file into a new sandbox, runs it with the interpreter it
is for, and prints its output. Tools of the host can be given to it, which it
calls through modules that are on its path (isolate_tools in Python,
isolate-tools in JavaScript, tool in a shell), although it has no network.

The interpreter is chosen by the suffix: python3 for .py, node for .js, .mjs,
.cjs and .ts, sh for .sh (or the shell of its "#!" line), bash for .bash, perl
for .pl, ruby for .rb. Any other file says it by its "#!" line, or is machine
code. "-" is a program on standard input. A program that needs more files is
run from its directory: --in DIR copies what is in it.

Flags stand before or behind the program; its own arguments, if they begin with
a hyphen, behind "--". All flags of "isolate exec" but --tty are there.

The result of a program is its last line that begins with "RESULT:", else its
last line that is not empty; --meta has it. The exit codes are those of exec.`

const toolsLong = `tools looks at tools of the host as "isolate run" would give them to a program,
and runs none of them. Servers are started or connected to.`

const toolsSubLong = `Tools are declared in a file (--tools) or by flags, as for "isolate run".`

const runExample = `  isolate run main.py
  isolate run main.py --tool get_invoice=./get_invoice.py -- --year 2025
  isolate run --in ./project ./project/main.mjs --tools tools.toml --meta m.json
  isolate run - --lang python --reply --repair-prompt < reply.md`

const shellLong = `shell starts a shell in a new sandbox, with a terminal of its own: bash, or sh
where there is no bash. TERM is copied from this environment, nothing else is.
It is "isolate exec --tty" with a time limit of one hour in place of a minute.
The files in /workspace are gone when it ends, unless --out is given.`

const serveLong = `serve keeps sandboxes ready and shares them with the other isolate commands of
this user: "isolate exec", "isolate run" and "isolate shell" find it by
themselves, mean the same with it and without, and start in a few milliseconds.
What starts programs of the host, as --tool and --mcp do, is carried out by the
command itself and is no faster. It also speaks HTTP with JSON on its socket,
for programs.

It serves until it gets SIGTERM or SIGINT; then it takes nothing new and waits
for what runs. A second signal ends that, too. Started by systemd with a
socket, it serves on that one.`

const psLong = `ps lists the programs that the server runs, and the sandboxes that it keeps for
its callers.`

const topLong = `top lists the programs that the server runs, those first that have used the
most processor time. On a terminal it looks again every second.`

const logsLong = `logs shows the end of a run's output: the last 128K of what it wrote. It has
that of runs that came over HTTP; the output of "isolate exec" went to whoever
called it.`

const killLong = `kill ends runs at once, with everything they have started. Given the name of a
kept sandbox it ends what runs in it, and the sandbox stays.`

const rmLong = `rm ends kept sandboxes with all they hold, and makes the server forget runs that
have ended.`

const poolLong = `pool is about what the server keeps ready for the next run.`

const poolStatusLong = `status says what the server has and what it has done since it started.`

const doctorLong = `doctor tries everything that a sandbox needs and says what it found, with the
evidence and with what to do. It changes nothing. With --print-setup it prints
the commands for an administrator, as a script to read and to run as root.

Exit codes: 0 ready; 1 degraded, sandboxes run and something is to be improved;
2 a run with default settings would be refused.`

const (
	doctorJSON  = "print the report as JSON"
	doctorSetup = "print the remedies as a shell script for an administrator"
)

const versionLong = `version prints the revision isolate was built from and the versions of what
enforces the sandbox.`

const completionLong = `completion writes the script that lets a shell complete commands, flags and
values. To load it:

  bash: source <(isolate completion bash)
  zsh:  isolate completion zsh > "${fpath[1]}/_isolate"
  fish: isolate completion fish | source`

// flagHelp is the help of all flags, made once: a server needs it for each
// command that it carries out.
var flagHelp = sync.OnceValue(allFlagHelp)

// allFlagHelp makes it. pflag takes a word in back quotes for the name of the
// value, so there are none.
func allFlagHelp() map[string]string {
	help := auditFlagHelp()
	maps.Copy(help, benchFlagHelp())
	maps.Copy(help, map[string]string{
		"in":            "copy a host file, or what is in a host directory, into /workspace, or to NAME there (repeatable)",
		"out":           "copy /workspace to this new or empty host directory at the end",
		"ro":            "show a host path read-only, at the second path if given (repeatable)",
		"rootfs":        "use this directory as read-only root, or the host's system directories (default host)",
		"env":           "set a variable (repeatable)",
		"env-from":      "copy one variable of this environment (repeatable)",
		"workdir":       "start in this directory inside (default /workspace)",
		"hostname":      "name of the host inside (default " + policy.DefaultHostname + ")",
		"preload":       "fork the program from a Python that has imported these modules already (docs/preload.md)",
		"net":           "what the program may reach: none, restricted, full, allow:HOST[:PORT],…, or host:PORT of this machine's loopback, whose name inside is host.isolate.internal (repeatable; default none)",
		"build":         "first run this command of the shell in a sandbox of its own; the program sees what it left in /workspace read-only at " + buildDir,
		"build-net":     "what the build step may reach, as --net",
		"build-preset":  "allow the build step what a package manager needs, as --net-preset",
		"net-preset":    "allow what a package manager needs: " + strings.Join(egress.Presets(), ", ") + " (repeatable)",
		"net-for":       "how long the rules of --net hold (default: as long as the run)",
		"net-ipv6":      "give the program IPv6 beside IPv4",
		"net-dns":       "which addresses names have inside: ones that only isolate knows, or their real ones (default synthetic)",
		"for":           "how long the grant holds, 24h at most (default " + grantTime + ")",
		"reason":        "why, for the audit log (required)",
		"memory":        fmt.Sprintf("most memory of all processes and files together (default %v)", policy.DefaultMemory),
		"cpus":          "share of processors, as 0.5 or 2 (default: not limited)",
		"pids":          fmt.Sprintf("most processes and threads at once (default %d)", policy.DefaultPIDs),
		"time":          timeHelp(policy.DefaultWall),
		"cpu-time":      "most processor time of all processes (default: not limited)",
		"grace":         "time between SIGTERM and SIGKILL at a time limit (default: killed at once)",
		"disk":          fmt.Sprintf("most bytes in /workspace, /tmp and /dev/shm (default %v)", policy.DefaultDisk),
		"inodes":        fmt.Sprintf("most files and directories in them (default %d)", policy.DefaultInodes),
		"files":         fmt.Sprintf("most open files of one process (default %d)", policy.DefaultFiles),
		"output":        fmt.Sprintf("most bytes kept of each output stream, first and last half (default %v)", policy.DefaultOutput),
		"end-on-output": "end the run when a stream passes --output",
		"profile":       "system calls allowed: default, strict or compat",
		"policy":        "read the policy from this TOML file; flags override it",
		"allow":         "agree to do without a guarantee, by its name (repeatable)",
		"meta":          "write how it ended as JSON to a file, or to inherited descriptor N",
		"socket":        "the server's socket (default " + client.SocketName + " in the run-time directory)",
		"max-sandboxes": "most sandboxes at once (default 64)",
		"max-waiting":   "most callers that wait for one; more are turned away (default 1024)",
		"max-cells":     "most root file systems kept ready (default 8)",
		"spares":        "sandboxes made ahead for each policy in use (default: one a processor)",
		"idle":          "keep what nobody uses for so long (default 5m)",
		"drain":         "when told to end, wait so long for what runs (default 30s)",
		"metrics":       "offer metrics for Prometheus on this address, as 127.0.0.1:9464",
		"all":           "list also what has ended",
		"lifetime":      "keep the sandbox for so long at most (default 1h, 24h at most)",
		"mode":          "permission bits of the file (default 644)",
		"follow":        "show also what comes, until the run has ended",
		"no-server":     "run without the server, even if there is one",
		"explain":       "print the plan and run nothing; --explain=json prints it as JSON",
		"stdin":         "connect the program's standard input to this one",
		"tools":         "give the program the tools that this TOML file declares",
		"tool":          "give it this program of the host as a tool, with ,schema=FILE behind it if there is one (repeatable)",
		"mcp":           "give it the tools of an MCP server: a command, unix:PATH or http://… (repeatable)",
		"approve":       "ask a person before all tools, or those of a name like PATTERN: never, ask or writes (repeatable)",
		"ask":           "who is asked: the terminal, nobody, a command or a web service (default: what the file of --tools says, else the terminal)",
		"max-calls":     fmt.Sprintf("most calls of tools in the run, or none for no limit (default %d)", bridge.DefaultMaxCalls),
		"parallel":      fmt.Sprintf("most tools at work at once (default %d)", bridge.DefaultParallel),
		"mcp-socket":    "offer the tools on a Unix socket that speaks MCP as well: $ISOLATE_MCP_SOCKET",
		"json":          "print as JSON, whole",
		"lang":          "language of the program: " + strings.Join(program.Languages(), ", ") + " (default: by its name and first line)",
		"reply":         "the file is a model's reply: run its first fenced block of code, or all of it if there is none",
		"repair-prompt": "if the program fails, print the end of its standard error for the model that wrote it",
		"tty":           "give the program a terminal of its own, connected to this one (TERM is copied)",
	})
	return help
}

func timeHelp(byDefault time.Duration) string {
	return fmt.Sprintf("longest time the run may take (default %s)", duration(byDefault))
}
