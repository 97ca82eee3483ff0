//go:build linux

package seccompprofile

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// group is calls that are allowed whatever their arguments are.
type group struct {
	name, why string
	// arch is the GOARCH that has these calls; empty means all.
	arch string
	// Space-separated names. Each column adds to the one before it.
	strict, standard, compat string
}

// special is calls whose answer depends on their arguments, or is not the
// default one.
type special struct {
	calls string // space-separated
	why   string
	// in lists the profiles that have it; nil means all.
	in []policy.Profile
	// arch as in group.
	arch string
	// rules are tried in order; the first whose conditions all hold decides.
	rules []rule
	// otherwise is the answer when no rule decides. Its zero value is the
	// table's default.
	otherwise action
}

// rule is an answer and the conditions under which it is given. Each names a
// different argument: libseccomp would turn two on one argument into "or".
type rule struct {
	when []cond
	do   action
}

// absent is calls that were left out on purpose, so that the default action
// answers them. They are listed to be documented, and to be kept out: a name in
// here and in a rule of the same profile is an error.
type absent struct {
	calls, why string
	in         []policy.Profile
}

// cond compares one argument. Comparing under a mask of 32 bits ignores the
// upper half of the register as the kernel does for an argument of type int, so
// that garbage there can neither pass a refused value nor fail an allowed one.
type cond struct {
	arg   uint
	mask  uint64
	value uint64
	not   bool // holds when the comparison does not; full mask only
}

const low32 = 0xffff_ffff

// is holds when all 64 bits are v.
func is(arg uint, v uint64) cond { return cond{arg: arg, mask: ^uint64(0), value: v} }

// isInt holds when the argument, an int to the kernel, is v.
func isInt(arg uint, v uint64) cond { return cond{arg: arg, mask: low32, value: v & low32} }

// bits holds when the argument has the value v under the mask.
func bits(arg uint, mask, v uint64) cond { return cond{arg: arg, mask: mask, value: v} }

// isNull and notNull test a pointer, all 64 bits of it.
func isNull(arg uint) cond  { return is(arg, 0) }
func notNull(arg uint) cond { return cond{arg: arg, mask: ^uint64(0), not: true} }

func (c cond) holds(args [6]uint64) bool { return (args[c.arg]&c.mask == c.value) != c.not }

func (c cond) String() string {
	op := "=="
	if c.not {
		op = "!="
	}
	if c.mask == ^uint64(0) {
		return fmt.Sprintf("arg%d %s %#x", c.arg, op, c.value)
	}
	return fmt.Sprintf("arg%d & %#x %s %#x", c.arg, c.mask, op, c.value)
}

// action is what the filter does with a call.
type action struct {
	verb  verb
	errno unix.Errno // of refuse, and what a silenced notify refuses with; 0 there means allow
}

type verb int

const (
	byDefault verb = iota // no rule: the table's default answers
	allow
	refuse
	notify
	kill // the whole process, never one thread
)

var (
	pass    = action{verb: allow}
	ask     = action{verb: notify} // the listener decides; silenced it passes
	deadEnd = action{verb: kill}   // a foreign architecture

	// defaultAction makes libraries fall back as on an older kernel.
	defaultAction = errno(unix.ENOSYS)
)

// errno refuses without a record.
func errno(e unix.Errno) action { return action{verb: refuse, errno: e} }

// record refuses through the listener, which answers with an error of its own
// choice; silenced it refuses with e.
func record(e unix.Errno) action { return action{verb: notify, errno: e} }

func (a action) String() string {
	switch a.verb {
	case byDefault:
		return defaultAction.String()
	case allow:
		return "allow"
	case refuse:
		return errnoName(a.errno)
	case notify:
		if a.errno == 0 {
			return "notify, the listener decides"
		}
		return "notify, refused with " + errnoName(a.errno) + " or a finer error"
	case kill:
		return "kill the process"
	}
	return fmt.Sprintf("verb(%d)", int(a.verb))
}

// errnoName has the name the kernel's sources use where there are two.
func errnoName(e unix.Errno) string {
	if e == unix.EOPNOTSUPP {
		return "EOPNOTSUPP"
	}
	return unix.ErrnoName(e)
}

// table is one profile for one architecture.
type table struct {
	arch     string
	plain    []string // allowed without a condition, sorted
	specials []special
	absent   []absent
}

// tableOf picks what a profile has out of the lists.
func tableOf(p policy.Profile, arch string) table {
	t := table{arch: arch}
	for _, g := range groups {
		if g.arch == "" || g.arch == arch {
			t.plain = append(t.plain, g.of(p)...)
		}
	}
	slices.Sort(t.plain)
	for _, s := range specials() {
		if (s.in == nil || slices.Contains(s.in, p)) && (s.arch == "" || s.arch == arch) {
			t.specials = append(t.specials, s)
		}
	}
	for _, a := range absents {
		if a.in == nil || slices.Contains(a.in, p) {
			t.absent = append(t.absent, a)
		}
	}
	return t
}

// of is the names a profile has of a group.
func (g group) of(p policy.Profile) []string {
	names := strings.Fields(g.strict)
	if p != policy.ProfileStrict {
		names = append(names, strings.Fields(g.standard)...)
	}
	if p == policy.ProfileCompat {
		names = append(names, strings.Fields(g.compat)...)
	}
	return names
}

// silenced is the same table without the notify action.
func (t table) silenced() table {
	quiet := func(a action) action {
		switch {
		case a.verb != notify:
			return a
		case a.errno == 0:
			return pass
		}
		return errno(a.errno)
	}
	specials := slices.Clone(t.specials)
	for i, s := range specials {
		specials[i].otherwise = quiet(s.otherwise)
		specials[i].rules = slices.Clone(s.rules)
		for j, r := range s.rules {
			specials[i].rules[j].do = quiet(r.do)
		}
	}
	t.specials = specials
	return t
}

// answer is what the table says about a call: the model the compiled filter is
// checked against.
func (s special) answer(args [6]uint64) action {
	for _, r := range s.rules {
		if !slices.ContainsFunc(r.when, func(c cond) bool { return !c.holds(args) }) {
			return r.do
		}
	}
	if s.otherwise.verb == byDefault {
		return defaultAction
	}
	return s.otherwise
}

// distinct are the rules without those at the end that do what is done anyway:
// the listener, not the filter, tells one notification from another.
func (s special) distinct() []rule {
	rules := s.rules
	for n := len(rules); n > 0 && rules[n-1].do.verb == notify && s.otherwise.verb == notify; n-- {
		rules = rules[:n-1]
	}
	return rules
}

// actions are all answers a special can give.
func (s special) actions() []action {
	all := []action{s.otherwise}
	for _, r := range s.rules {
		all = append(all, r.do)
	}
	return all
}

func (s special) can(v verb) bool {
	return slices.ContainsFunc(s.actions(), func(a action) bool { return a.verb == v })
}

func (t table) notifies() []string {
	var names []string
	for _, s := range t.specials {
		if s.can(notify) {
			names = append(names, strings.Fields(s.calls)...)
		}
	}
	slices.Sort(names)
	return names
}

func (t table) allowed() int {
	n := len(t.plain)
	for _, s := range t.specials {
		// A call the listener decides can succeed as well.
		if s.can(allow) || slices.Contains(s.actions(), ask) {
			n += len(strings.Fields(s.calls))
		}
	}
	return n
}
