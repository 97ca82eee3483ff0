package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// Mistakes in values of flags, in files that they name, and in variables. The rules of words.go hold.

var (
	errEmpty     = errors.New("it is empty")
	errNoSource  = errors.New("it has no host path")
	errInputForm = errors.New("it is not PATH or PATH:NAME")
)

// twoMeaningsError is PATH:NAME where there are both PATH and a file whose own
// name is all of it.
type twoMeaningsError struct{ whole, path, name string }

func (e twoMeaningsError) Error() string {
	return fmt.Sprintf("%q is a file, and so is %q, which would be copied as %q", e.whole, e.path, e.name)
}

// wrongValue is a value that cannot be read.
func wrongValue(flag string, err error) plan.Problem {
	var p policy.Problem
	var two twoMeaningsError
	switch {
	case errors.As(err, &two):
		return plan.Problem{
			What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
			Remedy: fmt.Sprintf("for the first write --%s %s\nfor the second choose another name than %q", flag, shellWord(two.whole+":NAME"), two.name),
		}
	case errors.As(err, &p):
		return plan.Problem{What: "--" + flag + ": " + p.What, Remedy: p.Hint}
	case errors.Is(err, errNoSource), errors.Is(err, errInputForm):
		return plan.Problem{
			What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
			Remedy: "write the host path, or the host path, a colon and the name below /workspace",
		}
	case errors.Is(err, errEmpty):
		return plan.Problem{
			What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
			Remedy: "leave the flag out for the default",
		}
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot use flag --%s: %v", flag, err),
		Remedy: "write the whole path from /",
	}
}

// wrongFile is a mistake in a policy file or a file of tools.
func wrongFile(what, file string, p policy.Problem) plan.Problem {
	place := fmt.Sprintf("%s %q", what, file)
	if p.Line > 0 {
		place += fmt.Sprintf(", line %d, column %d", p.Line, p.Column)
	}
	return plan.Problem{What: place + ": " + p.What, Remedy: p.Hint}
}

// wrongSetting is a mistake in the policy that flags and file make together.
// A hint to consent is put as it is done on the command line.
func wrongSetting(p policy.Problem) plan.Problem {
	hint := p.Hint
	for _, w := range policy.Weakenings {
		hint = strings.ReplaceAll(hint, fmt.Sprintf("allow = [%q]", w), fmt.Sprintf("--allow %s", w))
	}
	return plan.Problem{What: p.What, Remedy: hint}
}

func unreadable(what, name string, err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot read %s %q: %v", what, name, cause(err)),
		Remedy: "name a file that you can read",
	}
}

func variableTwice(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot set variable %q: it is given with two values", name),
		Remedy: "give it once, by --env or by --env-from",
	}
}

func variableWithoutValue(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot set variable %q: it has no value, and nothing is inherited", name),
		Remedy: fmt.Sprintf("write --env %s=VALUE, or --env-from %s to copy yours", name, name),
	}
}

func variableWithValue(text string) plan.Problem {
	name, _, _ := strings.Cut(text, "=") // the value may be a secret
	return plan.Problem{
		What:   fmt.Sprintf("cannot copy variable %q: --env-from takes a name, not a value", name),
		Remedy: "write --env NAME=VALUE to set one",
	}
}

func variableUnset(name string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot copy variable %q: it is not set here", name),
		Remedy: fmt.Sprintf("set it, or write --env %s=VALUE", name),
	}
}
