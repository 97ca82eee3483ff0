//go:build linux

package seccompprofile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unnotifiable are the calls that must never wait for the listener: the loader
// makes them between loading the filter and execve, when it may be itself what
// hands the listener over; and the kernel library refuses it for write.
const unnotifiable = `sendmsg recvmsg recvfrom read write ppoll close execve exit_group
	rt_sigprocmask rt_sigreturn`

// check refuses what libseccomp would accept and change in silence: a call
// named twice, a rule that says what the default says (dropped), two conditions
// on one argument (turned into "or").
func (t table) check() error {
	seen := make(map[string]bool)
	once := func(name string) error {
		if seen[name] {
			return fmt.Errorf("cannot use the table: %q is listed twice", name)
		}
		seen[name] = true
		return nil
	}
	var errs []error
	for _, name := range t.plain {
		errs = append(errs, once(name))
	}
	for _, s := range t.specials {
		for _, name := range strings.Fields(s.calls) {
			errs = append(errs, once(name))
			if s.can(notify) && slices.Contains(strings.Fields(unnotifiable), name) {
				errs = append(errs, fmt.Errorf("cannot notify %q: the loader calls it", name))
			}
		}
		errs = append(errs, s.check())
	}
	for _, a := range t.absent {
		for _, name := range strings.Fields(a.calls) {
			errs = append(errs, once(name))
		}
	}
	return errors.Join(errs...)
}

func (s special) check() error {
	if s.why == "" {
		return fmt.Errorf("cannot use the rules of %q: they give no reason", s.calls)
	}
	if len(s.rules) == 0 && s.otherwise.verb == byDefault {
		return fmt.Errorf("cannot use the rules of %q: they say what the default says", s.calls)
	}
	if s.otherwise == defaultAction {
		return fmt.Errorf("cannot use the rules of %q: leave out what the default says", s.calls)
	}
	for _, r := range s.rules {
		switch {
		case r.do == defaultAction || r.do.verb == byDefault:
			return fmt.Errorf("cannot use a rule of %q: libseccomp drops what the default says", s.calls)
		case r.do.verb == kill:
			return fmt.Errorf("cannot use a rule of %q: only foreign architectures are killed", s.calls)
		case len(r.when) == 0:
			return fmt.Errorf("cannot use a rule of %q: it has no condition", s.calls)
		}
		var args []uint
		for _, c := range r.when {
			if slices.Contains(args, c.arg) {
				return fmt.Errorf("cannot use a rule of %q: libseccomp takes two conditions on argument %d for \"or\"", s.calls, c.arg)
			}
			if c.arg > 5 || c.value&^c.mask != 0 || c.not && c.mask != ^uint64(0) {
				return fmt.Errorf("cannot use a rule of %q: condition %v can never be met or not be expressed", s.calls, c)
			}
			args = append(args, c.arg)
		}
	}
	return nil
}
