package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refusals are command lines that must not run anything, by what is wrong.
// $DIR is a directory with the files that TestRefusals makes.
var refusals = []struct {
	name string
	args []string
}{
	{"nothing", nil},
	{"unknown command", []string{"exce", "--", "true"}},
	{"program as command", []string{"python3", "x.py"}},
	{"program file as command", []string{"$DIR/hello.py", "--n", "a b"}},
	{"interpreter with a file as command", []string{"python3", "hello.py", "x"}},
	{"flags of run", []string{"exec", "--tools", "t.toml", "--mcp-socket", "true"}},
	{"terminal of run", []string{"run", "-it", "hello.py"}},
	{"letters of flags", []string{"ps", "-a", "-z"}},
	{"pool without a command", []string{"pool"}},
	{"pool with another command", []string{"pool", "ls"}},
	{"tools with another command", []string{"tools", "list"}},
	{"flag before the command of tools", []string{"tools", "--tools", "t.toml"}},
	{"tools without a flag", []string{"tools", "check", "t.toml"}},
	{"no audit log", []string{"audit", "verify", "$DIR/nolog"}},
	{"no audit log to show", []string{"audit", "show", "$DIR/nolog"}},
	{"no directory of logs", []string{"audit", "show", "$DIR"}},
	{"no audit log named", []string{"audit", "verify"}},
	{"too many audit logs", []string{"audit", "verify", "a", "b"}},
	{"no such run", []string{"audit", "show", "$DIR", "nosuchrun"}},
	{"no such run to verify", []string{"audit", "verify", "--run", "nosuchrun", "$DIR"}},
	{"no key", []string{"audit", "verify", "--key", "nokey", "$DIR"}},
	{"no anchor", []string{"audit", "verify", "--anchor", "$DIR/noanchor", "$DIR"}},
	{"flag before the command", []string{"--memory", "1G", "exec", "true"}},
	{"unknown flag of no command", []string{"--verbose"}},
	{"unknown help topic", []string{"help", "exce"}},
	{"help without topic but with a flag", []string{"help", "--al"}},
	{"argument of doctor", []string{"doctor", "now"}},
	{"misspelt flag of doctor", []string{"doctor", "--jsn"}},
	{"argument of version", []string{"version", "1"}},
	{"completion of no shell", []string{"completion"}},
	{"completion of an unknown shell", []string{"completion", "tcsh"}},
	{"program of shell", []string{"shell", "bash"}},
	{"tty of shell", []string{"shell", "--tty"}},

	{"no program", []string{"exec"}},
	{"no program behind dashes", []string{"exec", "--memory", "1G", "--"}},
	{"empty program", []string{"exec", "--", ""}},
	{"misspelt flags", []string{"exec", "--memry", "1G", "--tyme=5s", "--red-only", "/x", "true"}},
	{"unknown flag", []string{"exec", "--privileged", "true"}},
	{"one dash", []string{"exec", "-memory", "1G", "-m", "1G"}},
	{"three dashes", []string{"exec", "---memory", "1G", "true"}},
	{"flag without value at the end", []string{"exec", "--memory"}},
	{"flag without value before the dashes", []string{"exec", "--time", "--", "true"}},
	{"flag without value before a flag", []string{"exec", "--time", "--memory", "1G", "true"}},
	{"switch with a value", []string{"exec", "--stdin=yes", "--tty=", "true"}},

	{"sizes", []string{"exec", "--memory", "512", "--disk", "0", "--output", "-1G", "true"}},
	{"more sizes", []string{"exec", "--memory", "lots", "--disk", "0M", "--output", "12MB", "true"}},
	{"sizes out of bounds", []string{"exec", "--memory", "1K", "--disk", "9999999T", "true"}},
	{"empty values", []string{"exec", "--memory=", "--time=", "--cpus=", "--pids=", "--rootfs=", "--out=", "--in=", "--ro=", "--workdir=", "--hostname=", "--env=", "--env-from=", "--meta=", "--policy=", "--profile=", "--allow=", "true"}},
	{"durations", []string{"exec", "--time", "5", "--cpu-time", "0s", "--grace", "-1s", "true"}},
	{"more durations", []string{"exec", "--time", "25h", "--cpu-time", "soon", "true"}},
	{"counts", []string{"exec", "--pids", "0", "--inodes", "-1", "--files", "1.5", "--cpus", "0", "true"}},
	{"more counts", []string{"exec", "--pids", "many", "--inodes", "99999999999999999999", "--files", "3", "--cpus", "two", "true"}},
	{"names", []string{"exec", "--profile", "strct", "--allow", "weak", "--hostname", "a b", "true"}},
	{"forms of a plan", []string{"exec", "--explain=yaml", "true"}},
	{"form of a plan apart", []string{"exec", "--explain", "json"}},

	{"same flag, two values", []string{"exec", "--memory", "1G", "--memory", "2G", "--tty=false", "--tty", "true"}},
	{"stdin and terminal", []string{"exec", "--stdin", "--tty", "true"}},
	{"terminal without one", []string{"exec", "--tty", "true"}},
	{"variable, two values", []string{"exec", "--env", "TOKEN=1", "--env-from", "TOKEN", "--env", "A=1", "--env", "A=2", "true"}},
	{"variables", []string{"exec", "--env", "TOKEN", "--env", "1A=x", "--env", "=x", "--env-from", "NOPE", "--env-from", "TOKEN=x", "--env-from", "ODD NAME", "true"}},

	{"missing input", []string{"exec", "--in", "nope.txt", "--in", "$DIR/nope/", "true"}},
	{"unreadable input", []string{"exec", "--in", "$DIR/loop", "--in", "$DIR/file/below", "true"}},
	{"special input", []string{"exec", "--in", "/dev/null", "true"}},
	{"input names", []string{"exec", "--in", "$DIR/file:../x", "--in", "$DIR/file:/etc/x", "--in", "$DIR/file:", "--in", "$DIR/file:a:b", "--in", ":a", "true"}},
	{"input of two meanings", []string{"exec", "--in", "$DIR/file:too", "true"}},
	{"same input twice", []string{"exec", "--in", "$DIR/file", "--in", "$DIR/other:file", "true"}},
	{"outputs", []string{"exec", "--out", "$DIR", "true"}},
	{"output is a file", []string{"exec", "--out", "$DIR/file", "true"}},
	{"output below nothing", []string{"exec", "--out", "$DIR/a/b", "true"}},

	{"dangerous paths", []string{"exec", "--ro", "/var/run/docker.sock", "--ro", "/run/user/1500/bus", "--ro", "/", "--ro", "/home", "--ro", "/proc:/p", "--ro", "/home/someone/.ssh", "true"}},
	{"forms of paths", []string{"exec", "--ro", "/opt:/a:ro", "--ro", "/opt:rel", "--ro", "~/x", "--ro", "/opt:/a/../b", "true"}},
	{"paths inside", []string{"exec", "--ro", "/opt:/proc", "--ro", "/opt:/workspace", "--ro", "/opt:/x", "--ro", "/srv:/x", "true"}},
	{"root of the host", []string{"exec", "--rootfs", "/", "true"}},

	{"missing policy", []string{"exec", "--policy", "$DIR/nope.toml", "true"}},
	{"directory as policy", []string{"exec", "--policy", "$DIR", "true"}},
	{"wrong policy", []string{"exec", "--policy", "$DIR/bad.toml", "--memory", "0", "true"}},

	{"result nowhere", []string{"exec", "--meta", "-", "true"}},
	{"result in a directory", []string{"exec", "--meta", "$DIR", "true"}},
	{"result in a device", []string{"exec", "--meta", "/dev/null", "true"}},
	{"result below nothing", []string{"exec", "--meta", "$DIR/a/m.json", "true"}},
	{"result in a stream", []string{"exec", "--meta", "1", "true"}},
	{"result in a descriptor nobody passed", []string{"exec", "--meta", "987", "true"}},

	{"no file to run", []string{"run"}},
	{"empty name of a file", []string{"run", ""}},
	{"file that is not there", []string{"run", "$DIR/nope.py", "--memry", "1G", "--lang", "cobol", "--", "--x"}},
	{"directory as a file", []string{"run", "$DIR"}},
	{"device as a file", []string{"run", "/dev/zero", "--lang", "python"}},
	{"file of no language", []string{"run", "$DIR/file"}},
	{"file of the bridge's name", []string{"run", "$DIR/_rpc", "--lang", "sh"}},
	{"files of the same name", []string{"run", "$DIR/file", "--lang", "sh", "--in", "$DIR/other:file"}},
	{"program on standard input, twice", []string{"run", "-", "--stdin", "--lang", "sh"}},
	{"program on standard input without a language", []string{"run", "-"}},
	{"reply without a language", []string{"run", "--reply", "$DIR/file"}},
	{"terminal of a file", []string{"run", "$DIR/file", "--lang", "sh", "--tty"}},

	{"control characters", []string{"exec", "--memory", "\x1b]0;t\a", "--\x1b[2J", "--in", "\x1b[2J\n", "--env", "\x1b=x", "--meta", "\x1b/x", "--policy", "\x1bp", "true"}},
	{"all at once", []string{"exec", "--memry", "1G", "--time", "5", "--ro", "/", "--in", "$DIR/nope", "--stdin", "--tty"}},
}

// TestRefusals: each of them is refused before anything is opened or made,
// with every problem and what to do about it.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "x")
	write(t, dir, "other", "x")
	write(t, dir, "file:too", "x")
	write(t, dir, "hello.py", "x")
	write(t, dir, "_rpc", "x")
	write(t, dir, "bad.toml", "memry = \"1G\"\npids = -1\nmemory = 512\n[env]\nA = 1\n")
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)
	var all strings.Builder
	for _, c := range refusals {
		args := slices.Clone(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$DIR", dir)
		}
		f := &fake{}
		got := call(t, f, dir, args...)
		if got.code != exitRefused || got.stdout != "" || f.opened != 0 {
			t.Errorf("%s: code %d, opened %d times, standard output %q", c.name, got.code, f.opened, got.stdout)
		}
		checkForm(t, c.name, got.stderr)
		fmt.Fprintf(&all, "# %s\n$ isolate %s\n%s\n", c.name, quoted(c.args), strings.ReplaceAll(got.stderr, dir, "$DIR"))
	}
	golden(t, "refusals.golden", all.String())
	if after := list(t, dir); !slices.Equal(before, after) {
		t.Errorf("files before %q, after %q", before, after)
	}
}

// checkForm: error lines each with at least one hint, and nothing that a
// terminal would obey.
func checkForm(t *testing.T, name, text string) {
	t.Helper()
	var last string
	for line := range strings.Lines(text) {
		kind, _, _ := strings.Cut(line, ": ")
		if kind != "error" && (kind != "hint" || last == "") || kind == "error" && last == "error" {
			t.Errorf("%s: line %q after a line of kind %q", name, line, last)
		}
		last = kind
	}
	if last != "hint" {
		t.Errorf("%s: ends with a line of kind %q", name, last)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r == 0x7f) }) {
		t.Errorf("%s: control characters in %q", name, text)
	}
}

func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; a == "" || strings.ContainsFunc(a, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
			words[i] = fmt.Sprintf("%q", a)
		}
	}
	return strings.Join(words, " ")
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
