package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// checkFlags takes the flags out of args that the command does not have, or
// that lack their value, and remembers each as a mistake. pflag would stop at
// the first of them; what is left parses, so that the mistakes in values can
// be reported together with these.
func (a *app) checkFlags(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return []string{} // for nil, cobra would take those of the process
	}
	if strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args
	}
	root.InitDefaultHelpCmd()
	cmd, at := descend(root, args)
	if at == 0 && !strings.HasPrefix(args[0], "-") {
		a.typed = args
		return args[:1]
	}
	cmd.InitDefaultHelpFlag()
	_, anywhere := cmd.Annotations[flagsAnywhere]
	cmd.Flags().SetInterspersed(anywhere)
	s := flagCheck{flags: cmd.Flags(), rest: args[at:], anywhere: anywhere}
	if cmd == root {
		s.elsewhere = []*cobra.Command{child(root, "exec"), child(root, "run")}
	} else {
		s.elsewhere = cmd.Commands()
	}
	s.habits = sandboxHabits(cmd.CommandPath())
	s.all()
	a.mistakes = s.mistakes
	return append(append(args[:at:at], s.kept...), s.rest...)
}

// flagsAnywhere marks a command whose flags may stand behind its arguments, up
// to "--".
const flagsAnywhere = "flags-anywhere"

// descend finds the command that args begin with, and how many of them name it.
func descend(root *cobra.Command, args []string) (*cobra.Command, int) {
	cmd := root
	for at, name := range args {
		next := child(cmd, name)
		if next == nil {
			return cmd, at
		}
		cmd = next
	}
	return cmd, len(args)
}

func child(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// flagCheck moves flags from rest to kept, or to mistakes.
type flagCheck struct {
	flags *pflag.FlagSet
	// elsewhere are commands that have the flags which stand in the wrong place
	// here; nil is none.
	elsewhere []*cobra.Command
	// habits are what is said at this command before anything else.
	habits []habits
	// anywhere is that of flagsAnywhere.
	anywhere bool

	rest     []string
	kept     []string
	mistakes []plan.Problem
}

func (s *flagCheck) all() {
	for len(s.rest) > 0 {
		arg := s.rest[0]
		argument := arg == "-" || !strings.HasPrefix(arg, "-")
		if arg == "--" || argument && !s.anywhere {
			return
		}
		s.rest = s.rest[1:]
		if argument {
			s.kept = append(s.kept, arg)
			continue
		}
		s.one(arg)
	}
}

func (s *flagCheck) one(arg string) {
	name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	flag := s.lookup(arg, name)
	if flag == nil {
		for n := s.unknown(arg, name); n > 0 && !hasValue && s.plainFollows(); n-- {
			s.rest = s.rest[1:] // it was a value of what was meant
		}
		return
	}
	if hasValue || !takesValue(flag) {
		s.kept = append(s.kept, arg)
		return
	}
	if !s.valueFollows() {
		s.mistakes = append(s.mistakes, missingValue(flag.Name, flag.Value.Type()))
		return
	}
	s.kept = append(s.kept, arg, s.rest[0])
	s.rest = s.rest[1:]
}

// unknown notes a flag that the command does not have and says how many values
// what was meant takes.
func (s *flagCheck) unknown(arg, name string) int {
	typed, _, _ := strings.Cut(arg, "=")
	if h, ok := findHabit(s.habits, typed); ok {
		s.mistakes = append(s.mistakes, foreignFlag(typed, h))
		return h.values
	}
	for _, c := range s.elsewhere {
		if c == nil {
			continue
		}
		if flag := c.Flags().Lookup(name); flag != nil {
			s.mistakes = append(s.mistakes, misplacedFlag(typed, c.CommandPath()))
			return values(flag)
		}
	}
	sandbox := s.flags.Lookup("memory") != nil || s.flags.Lookup("version") != nil // the latter is isolate's own
	if of := flagOfRun(name); of != nil && sandbox {
		s.mistakes = append(s.mistakes, flagOfAnother(typed))
		return of.values()
	}
	if h, ok := habitOf(typed, s.flags); ok && sandbox {
		s.mistakes = append(s.mistakes, foreignFlag(typed, h))
		return h.values
	}
	near, _ := policy.Nearest(name, flagNames(s.flags))
	if near == "" && len(name) == 1 {
		near = initial(name, flagNames(s.flags))
	}
	s.mistakes = append(s.mistakes, unknownFlag(typed, near))
	if meant := s.flags.Lookup(near); meant != nil {
		return values(meant)
	}
	return 0
}

// flagOfRun finds a flag that "isolate run" has and "isolate exec" has not.
func flagOfRun(name string) *flagSpec {
	for _, spec := range programFlags() {
		if spec.name == name {
			return &spec
		}
	}
	return nil
}

// initial is the only name that begins with the letter, or "".
func initial(letter string, names []string) (found string) {
	for _, n := range names {
		if !strings.HasPrefix(n, letter) {
			continue
		}
		if found != "" {
			return ""
		}
		found = n
	}
	return found
}

// lookup finds the flag of arg: --name, or the one letter -h.
func (s *flagCheck) lookup(arg, name string) *pflag.Flag {
	if strings.HasPrefix(arg, "--") {
		if strings.HasPrefix(arg, "---") {
			return nil
		}
		return s.flags.Lookup(name)
	}
	if len(arg) == 2 {
		return s.flags.ShorthandLookup(arg[1:])
	}
	return nil
}

func takesValue(f *pflag.Flag) bool { return f.NoOptDefVal == "" }

// values is how many values follow a flag.
func values(f *pflag.Flag) int {
	if takesValue(f) {
		return 1
	}
	return 0
}

// valueFollows says whether the next argument can be a value: there is one,
// and it is neither the end of the flags nor the next flag. "-1G" is a value:
// a wrong one, and its own rule says so.
func (s *flagCheck) valueFollows() bool {
	if len(s.rest) == 0 || s.rest[0] == "--" {
		return false
	}
	name, _, _ := strings.Cut(s.rest[0], "=")
	return !strings.HasPrefix(name, "--") || s.flags.Lookup(name[2:]) == nil
}

// plainFollows says whether the next argument can be a value of a flag that is
// not ours: those that stand beside it are not ours either.
func (s *flagCheck) plainFollows() bool {
	return len(s.rest) > 0 && !strings.HasPrefix(s.rest[0], "--")
}

func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}
