package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/isolate-run/isolate/cmd/isolate/internal/program"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// The words that stand for a value in the help text. pflag prints them, and
// prints nothing for "bool".
const (
	kindSize     = "SIZE"
	kindDuration = "DURATION"
	kindCount    = "COUNT"
	kindFile     = "FILE"
	kindDir      = "DIR"
	kindSwitch   = "bool"
)

// Values of --explain.
const (
	explainText = "text"
	explainJSON = "json"
)

// raw collects the texts of one flag as they were typed. Set never fails:
// values are read once all are there, so that every mistake is reported.
type raw struct {
	kind  string
	texts []string
}

var _ pflag.Value = (*raw)(nil)

func (r *raw) Set(s string) error { r.texts = append(r.texts, s); return nil }
func (r *raw) String() string     { return "" }
func (r *raw) Type() string       { return r.kind }

// flagSpec describes one flag of exec and shell. Its help text is flagHelp.
type flagSpec struct {
	name string
	// kind is the word for the value; kindSwitch takes none.
	kind string
	// alone is the value of a flag that is given without one. Empty means
	// that a value is required.
	alone string
	// offers are the values that shell completion proposes.
	offers []string
}

// values is how many values follow the flag.
func (s flagSpec) values() int {
	if s.kind == kindSwitch || s.alone != "" {
		return 0
	}
	return 1
}

// streamFlags are exec's alone: shell always has a terminal.
func streamFlags() []flagSpec {
	return []flagSpec{
		{name: "stdin", kind: kindSwitch, alone: "true"},
		{name: "tty", kind: kindSwitch, alone: "true"},
		{name: "attest", kind: kindFile},
	}
}

// sourceFlags say which tools there are: run's and those of tools.
func sourceFlags() []flagSpec {
	return []flagSpec{
		{name: "tools", kind: kindFile},
		{name: "tool", kind: "NAME=PROGRAM"},
		{name: "mcp", kind: "NAME=SERVER"},
		{name: "approve", kind: "[PATTERN=]WHEN", offers: []string{"never", "ask", "writes"}},
	}
}

// listFlags are those of tools ls alone.
func listFlags() []flagSpec {
	return []flagSpec{{name: "json", kind: kindSwitch, alone: "true"}}
}

// programFlags are run's alone, but for the first ones.
func programFlags() []flagSpec {
	return append(append(sourceFlags(), buildFlags()...), []flagSpec{
		{name: "ask", kind: "terminal|nobody|COMMAND|URL"},
		{name: "max-calls", kind: "COUNT|none"},
		{name: "parallel", kind: kindCount},
		{name: "mcp-socket", kind: kindSwitch, alone: "true"},
		{name: "lang", kind: "NAME", offers: program.Languages()},
		{name: "reply", kind: kindSwitch, alone: "true"},
		{name: "repair-prompt", kind: kindSwitch, alone: "true"},
		{name: "stdin", kind: kindSwitch, alone: "true"},
		{name: "attest", kind: kindFile},
	}...)
}

// sandboxFlags are the flags that exec and shell share, in the order of the
// help text.
func sandboxFlags() []flagSpec {
	return slices.Concat([]flagSpec{
		{name: "in", kind: "PATH[:NAME]"},
		{name: "out", kind: kindDir},
	}, startFlags(), policyFlags(), []flagSpec{
		metaFlag(),
		{name: "no-server", kind: kindSwitch, alone: "true"},
		{name: "explain", alone: explainText, offers: []string{explainText, explainJSON}},
	}, auditFlags())
}

// startFlags are of the program, whatever sandbox it starts in.
func startFlags() []flagSpec {
	return []flagSpec{
		{name: "env", kind: "NAME=VALUE"},
		{name: "env-from", kind: "NAME"},
		{name: "workdir", kind: "PATH"},
	}
}

func metaFlag() flagSpec { return flagSpec{name: "meta", kind: "FILE|N"} }

// policyFlags are of the sandbox: what readPolicy makes a policy of.
func policyFlags() []flagSpec {
	return []flagSpec{
		{name: "ro", kind: "PATH[:PATH]"},
		{name: "rootfs", kind: "host|DIR"},
		{name: "hostname", kind: "NAME"},
		{name: "preload", kind: "python[:MODULE,...]"},
		{name: "net", kind: "MODE|allow:HOST,...|host:PORT", offers: egress.Modes()},
		{name: "net-preset", kind: "NAME", offers: egress.Presets()},
		{name: "net-for", kind: kindDuration},
		{name: "net-ipv6", kind: kindSwitch, alone: "true"},
		{name: "net-dns", kind: "synthetic|real", offers: egress.DNSModes()},
		{name: "memory", kind: kindSize},
		{name: "cpus", kind: "NUMBER"},
		{name: "pids", kind: kindCount},
		timeFlag(),
		{name: "cpu-time", kind: kindDuration},
		{name: "grace", kind: kindDuration},
		{name: "disk", kind: kindSize},
		{name: "inodes", kind: kindCount},
		{name: "files", kind: kindCount},
		{name: "output", kind: kindSize},
		{name: "end-on-output", kind: kindSwitch, alone: "true"},
		{name: "profile", kind: "NAME", offers: profileNames()},
		{name: "policy", kind: kindFile},
		{name: "allow", kind: "WEAKENING", offers: weakeningNames()},
	}
}

func timeFlag() flagSpec { return flagSpec{name: "time", kind: kindDuration} }

// flags are the values given, by name.
type flags map[string]*raw

// addFlags defines specs on cmd and returns where their values will be.
func addFlags(cmd *cobra.Command, specs []flagSpec) flags {
	values, help := make(flags, len(specs)), flagHelp()
	fs := cmd.Flags()
	fs.SortFlags = false
	for _, s := range specs {
		v := &raw{kind: s.kind}
		values[s.name] = v
		fs.VarPF(v, s.name, "", help[s.name]).NoOptDefVal = s.alone
		if s.kind == kindDir {
			_ = cmd.MarkFlagDirname(s.name)
		}
	}
	return values
}

// offerValues lets shell completion propose values. cobra remembers that for
// the life of the process, so it is not done for each command of a server.
func offerValues(cmd *cobra.Command) {
	for _, s := range slices.Concat(sandboxFlags(), programFlags()) {
		if s.offers != nil {
			_ = cmd.RegisterFlagCompletionFunc(s.name, cobra.FixedCompletions(s.offers, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

func profileNames() []string {
	return []string{policy.ProfileDefault.String(), policy.ProfileStrict.String(), policy.ProfileCompat.String()}
}

func weakeningNames() []string {
	names := make([]string, len(policy.Weakenings))
	for i, w := range policy.Weakenings {
		names[i] = string(w)
	}
	return names
}

// many returns all values of a flag that may be repeated.
func (f flags) many(name string) []string {
	if v := f[name]; v != nil {
		return v.texts
	}
	return nil
}

// one returns the value of a flag that has one, and whether it was given.
// Giving it again with another value is a contradiction: which was meant
// cannot be known.
func (f flags) one(name string, problems *[]plan.Problem) (string, bool) {
	texts := f.many(name)
	if len(texts) == 0 {
		return "", false
	}
	for _, t := range texts[1:] {
		if t != texts[0] {
			*problems = append(*problems, givenTwice(name, texts))
			break
		}
	}
	return texts[0], true
}

// on reads a switch.
func (f flags) on(name string, problems *[]plan.Problem) bool {
	text, given := f.one(name, problems)
	switch {
	case !given || text == "false":
		return false
	case text == "true":
		return true
	}
	*problems = append(*problems, notASwitch(name, text))
	return false
}

// given lists those of names that were given, as they are typed.
func (f flags) given(names ...string) string {
	var list []string
	for _, n := range names {
		if len(f.many(n)) > 0 {
			list = append(list, "--"+n)
		}
	}
	return strings.Join(list, " and ")
}
