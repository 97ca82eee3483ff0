//go:build linux && cgo && seccomp

package seccompprofile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	seccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// resolve finds the number of every call a table has a rule for.
func resolve(t table) (map[string]int, error) {
	names := slices.Clone(t.plain)
	for _, s := range t.specials {
		names = append(names, strings.Fields(s.calls)...)
	}
	calls := make(map[string]int, len(names))
	var unknown []string
	for _, name := range names {
		listed, ok := numbers[name]
		nr, err := seccomp.GetSyscallFromName(name)
		switch {
		// The library has numbers below zero for what other architectures have.
		case err == nil && nr >= 0 && ok && int(nr) != listed:
			return nil, fmt.Errorf("cannot number %q: libseccomp says %d, the table %d", name, nr, listed)
		case err == nil && nr >= 0:
			calls[name] = int(nr)
		case ok:
			calls[name] = listed
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("cannot number %s: neither libseccomp %s nor the table of newer calls knows them on this architecture",
			strings.Join(unknown, ", "), libraryVersion())
	}
	return calls, nil
}

func libraryVersion() string {
	major, minor, micro := seccomp.GetLibraryVersion()
	return fmt.Sprintf("%d.%d.%d", major, minor, micro)
}

// assemble has libseccomp compile the table.
func assemble(t table, calls map[string]int) ([]byte, error) {
	f, err := seccomp.NewFilter(libAction(defaultAction))
	if err != nil {
		return nil, fmt.Errorf("cannot start a filter: %w", err)
	}
	defer f.Release()
	// The new filter has the native architecture and no other; x32 counts as
	// another one. A call of those ends the process: their arguments cannot be
	// told (int 0x80 socketcall), so they cannot be answered one by one.
	if err := f.SetBadArchAction(libAction(deadEnd)); err != nil {
		return nil, fmt.Errorf("cannot set the action for foreign architectures: %w", err)
	}
	// A binary tree over the numbers: the kernel answers what is always allowed
	// from a bitmap, and for the rest some 10 comparisons beat some 200.
	if err := f.SetOptimize(2); err != nil {
		return nil, fmt.Errorf("cannot choose a binary tree: %w", err)
	}
	for _, name := range t.plain {
		if err := f.AddRuleExact(seccomp.ScmpSyscall(calls[name]), seccomp.ActAllow); err != nil {
			return nil, fmt.Errorf("cannot allow %q: %w", name, err)
		}
	}
	for _, s := range t.specials {
		for _, name := range strings.Fields(s.calls) {
			if err := s.addTo(f, seccomp.ScmpSyscall(calls[name])); err != nil {
				return nil, fmt.Errorf("cannot add the rules of %q: %w", name, err)
			}
		}
	}
	return export(f)
}

func (s special) addTo(f *seccomp.ScmpFilter, nr seccomp.ScmpSyscall) error {
	rules := s.distinct()
	if len(rules) == 0 {
		return f.AddRuleExact(nr, libAction(s.otherwise))
	}
	for _, r := range rules {
		conds := make([]seccomp.ScmpCondition, len(r.when))
		for i, c := range r.when {
			conds[i] = c.libCondition()
		}
		if err := f.AddRuleConditionalExact(nr, libAction(r.do), conds); err != nil {
			return err
		}
	}
	if s.otherwise.verb == byDefault {
		return nil
	}
	// libseccomp has no "otherwise". It tries comparisons of higher arguments
	// first, and for one argument equality before order; so what is true of
	// every value of argument 0 is tried last. verify makes sure.
	last := seccomp.ScmpCondition{Argument: 0, Op: seccomp.CompareGreaterEqual}
	return f.AddRuleConditionalExact(nr, libAction(s.otherwise), []seccomp.ScmpCondition{last})
}

func (c cond) libCondition() seccomp.ScmpCondition {
	switch {
	case c.not:
		return seccomp.ScmpCondition{Argument: c.arg, Op: seccomp.CompareNotEqual, Operand1: c.value}
	case c.mask == ^uint64(0):
		return seccomp.ScmpCondition{Argument: c.arg, Op: seccomp.CompareEqual, Operand1: c.value}
	}
	return seccomp.ScmpCondition{Argument: c.arg, Op: seccomp.CompareMaskedEqual, Operand1: c.mask, Operand2: c.value}
}

func libAction(a action) seccomp.ScmpAction {
	switch a.verb {
	case allow:
		return seccomp.ActAllow
	case refuse:
		return seccomp.ActErrno.SetReturnCode(int16(a.errno))
	case notify:
		return seccomp.ActNotify
	}
	return seccomp.ActKillProcess
}

// export gets the program out of libseccomp, which before 2.6 only writes it to
// a descriptor.
func export(f *seccomp.ScmpFilter) ([]byte, error) {
	const name = "isolate-seccomp"
	// Without MFD_NOEXEC_SEAL vm.memfd_noexec=2 refuses; before Linux 6.3
	// there is no such flag.
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create memory for the filter: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("cannot export the filter: %w", err)
	}
	bpf, err := io.ReadAll(io.NewSectionReader(file, 0, maxInstructions*instructionSize+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the filter: %w", err)
	}
	return bpf, nil
}
