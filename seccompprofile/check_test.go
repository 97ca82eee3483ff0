//go:build linux && cgo && seccomp

package seccompprofile

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	seccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// TestRefusedTables has what libseccomp and libcontainer would change without a
// word (the traps of the threat model): each must be an error.
func TestRefusedTables(t *testing.T) {
	one := func(s special) table { return table{arch: runtime.GOARCH, specials: []special{s}} }
	for name, c := range map[string]struct {
		table table
		want  string
	}{
		"a name nobody knows":            {table{arch: runtime.GOARCH, plain: []string{"read", "no_such_call"}}, "cannot number no_such_call"},
		"a call of another architecture": {table{arch: runtime.GOARCH, plain: []string{"chown32"}}, "cannot number chown32"},
		"a call listed twice":            {table{arch: runtime.GOARCH, plain: []string{"read", "read"}}, "listed twice"},
		"allowed and special": {table{arch: runtime.GOARCH, plain: []string{"seccomp"},
			specials: []special{{calls: "seccomp", why: "x", otherwise: errno(unix.EPERM)}}}, "listed twice"},
		"allowed and left out": {table{arch: runtime.GOARCH, plain: []string{"clone3"}, absent: []absent{{calls: "clone3"}}}, "listed twice"},
		"the default as a rule": {one(special{calls: "futex", why: "x",
			rules: []rule{{[]cond{isInt(1, 6)}, errno(unix.ENOSYS)}}}), "drops what the default says"},
		"the default as the only answer": {one(special{calls: "clone3", why: "x", otherwise: errno(unix.ENOSYS)}), "leave out"},
		"no answer":                      {one(special{calls: "clone3", why: "x"}), "they say what the default says"},
		"two conditions on one argument": {one(special{calls: "ioctl", why: "x",
			rules: []rule{{[]cond{isInt(1, 1), isInt(1, 2)}, pass}}}), `"or"`},
		"a condition nothing meets": {one(special{calls: "ioctl", why: "x",
			rules: []rule{{[]cond{bits(1, 0xf0, 0x01)}, pass}}}), "never be met"},
		"a rule without condition":         {one(special{calls: "ioctl", why: "x", rules: []rule{{nil, pass}}}), "no condition"},
		"no reason":                        {one(special{calls: "ioctl", otherwise: errno(unix.EPERM)}), "no reason"},
		"killing for a call":               {one(special{calls: "ioctl", why: "x", rules: []rule{{[]cond{isInt(1, 1)}, deadEnd}}}), "only foreign"},
		"notifying what the loader calls":  {one(special{calls: "sendmsg", why: "x", otherwise: ask}), "the loader calls it"},
		"an architecture nobody looked at": {table{arch: "riscv64", plain: []string{"read"}}, "not supported"},
		// Both rules hold for (1, 1); libseccomp tries the second one first.
		"rules in another order": {one(special{calls: "ioctl", why: "x", rules: []rule{
			{[]cond{isInt(0, 1)}, pass},
			{[]cond{isInt(1, 1)}, errno(unix.EPERM)}}}), "something else than the table"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.table.compile()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestNumbers: a number in our list must be that of the library, which may know
// more than the version the list was made for.
func TestNumbers(t *testing.T) {
	for name, nr := range numbers {
		if known, err := seccomp.GetSyscallFromName(name); err == nil && int(known) != nr {
			t.Errorf("%s is %d here, %d in libseccomp", name, nr, known)
		}
	}
}

// TestNames: every name of every list is a call of amd64 and, but for the
// groups marked, of arm64. A misspelt name in the list of absent calls would
// otherwise look like care.
func TestNames(t *testing.T) {
	for _, arch := range []struct {
		goarch string
		lib    seccomp.ScmpArch
	}{{"amd64", seccomp.ArchAMD64}, {"arm64", seccomp.ArchARM64}} {
		for _, p := range profiles {
			table := tableOf(p, arch.goarch)
			names := slices.Clone(table.plain)
			for _, s := range table.specials {
				names = append(names, strings.Fields(s.calls)...)
			}
			for _, a := range table.absent {
				names = append(names, strings.Fields(a.calls)...)
			}
			for _, name := range names {
				nr, err := seccomp.GetSyscallFromNameByArch(name, arch.lib)
				if _, listed := numbers[name]; (err != nil || nr < 0) && !listed && !slices.Contains(tooNew, name) {
					t.Errorf("%v: %s has no call %q", p, arch.goarch, name)
				}
			}
		}
	}
}

// tooNew are absent calls that libseccomp 2.5.4 has no name for.
var tooNew = strings.Fields(`open_tree_attr statmount listmount listns futex_wake futex_wait
	futex_requeue lsm_get_self_attr lsm_set_self_attr lsm_list_modules`)

// TestVerifyNotices changes every instruction of a program, one at a time: verify
// and the comparison of decisions must agree on whether that changes its meaning.
// It does not for a comparison of a masked value with what the mask does not let
// through, and for nothing else.
func TestVerifyNotices(t *testing.T) {
	f := must(Compile(policy.ProfileDefault))
	table := tableOf(policy.ProfileDefault, runtime.GOARCH)
	calls, err := resolve(table)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := decode(f.BPF)
	if err != nil {
		t.Fatal(err)
	}
	g := newGraph()
	root, err := g.read(prog)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i, in := range prog {
		for what, other := range mutants(in) {
			changed := slices.Clone(prog)
			changed[i] = other
			again, readErr := g.read(changed)
			same := readErr == nil && again == root
			if err := verify(encode(changed), table, calls); (err == nil) != same {
				t.Errorf("%s, %s: verify says %v, the same decision: %v", in.text(i), what, err, same)
			}
			if same {
				kept++
			}
		}
	}
	if kept > 10 {
		t.Errorf("%d changes do not matter: these would be superfluous instructions", kept)
	}
	t.Log(kept, "changes do not matter")
}

// mutants are an instruction with one thing changed: another field, mask, answer
// or value, the jumps the other way round.
func mutants(in instruction) map[string]instruction {
	bit, swapped, above, below := in, in, in, in
	bit.k ^= 4
	if in.code&7 != unix.BPF_JMP {
		return map[string]instruction{"one bit": bit}
	}
	swapped.jt, swapped.jf = in.jf, in.jt
	above.k++
	below.k--
	return map[string]instruction{"one bit": bit, "swapped": swapped, "one more": above, "one less": below}
}

func TestSurvey(t *testing.T) {
	for _, p := range profiles {
		s, f := SurveyOf(p), must(Compile(p))
		allowed := 0
		for _, e := range s.Allowed {
			allowed += len(e.Calls)
			if e.Reason == "" || e.Name == "" || len(e.Rules) > 0 {
				t.Errorf("%v: allowed %v lacks a name or reason, or has rules", p, e)
			}
		}
		for _, e := range s.Special {
			if e.Reason == "" || len(e.Rules) == 0 {
				t.Errorf("%v: special %v lacks a reason or rules", p, e)
			}
			if strings.Contains(strings.Join(e.Rules, " "), ": allow") || e.Calls[0] == "connect" {
				allowed += len(e.Calls)
			}
		}
		if allowed != f.Allowed {
			t.Errorf("%v: the survey lists %d calls that can succeed, the filter says %d", p, allowed, f.Allowed)
		}
		for _, e := range s.Absent {
			if e.Reason == "" {
				t.Errorf("%v: absent %v gives no reason", p, e)
			}
		}
	}
}

func must(f *Filter, err error) *Filter {
	if err != nil {
		panic(err)
	}
	return f
}
