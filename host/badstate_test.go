package host

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// Bad states that can be had on a good machine: in namespaces or behind a
// filter of the test's own.

// bad runs a helper in a bad state and checks that the failing check names it.
// blocking says whether Blocking must see it too.
func bad(t *testing.T, role string, flags uintptr, id string, words *fault, errno string) seen {
	t.Helper()
	attr := ordinary()
	if flags != 0 {
		attr = inNamespaces(flags)
	}
	s := ask(t, helperCommand(t, role, attr))
	if s.Report.Verdict != CannotRun {
		t.Errorf("verdict %v", s.Report.Verdict)
	}
	c := s.check(id)
	if c.Status != Fail || c.What != words.what || !strings.Contains(c.Evidence, errno) {
		t.Errorf("%s: %v, %q, %q", id, c.Status, c.What, c.Evidence)
	}
	return s
}

func TestUserNamespacesAtZero(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := bad(t, "no-userns", unix.CLONE_NEWNS, "userns.max", &usernsMaxZero, "user.max_user_namespaces is 0")
	if c := s.check("userns.create"); c.Status != Fail || !strings.Contains(c.Evidence, "ENOSPC") {
		t.Errorf("userns.create: %v, %q", c.Status, c.Evidence)
	}
	if !slices.Contains(idsOf(s.Blocking, Fail), "userns.max") {
		t.Errorf("Blocking does not see it: %v", s.Blocking)
	}
}

func TestMaskedProc(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := bad(t, "masked-proc", unix.CLONE_NEWNS|unix.CLONE_NEWPID, "proc.mount", wordsForProc(t), "EPERM")
	if c := s.check("proc.mount"); !strings.Contains(c.Evidence, "covered are /proc/interrupts") {
		t.Errorf("the evidence does not name the cover: %q", c.Evidence)
	}
	if c := s.check("userns.nested"); c.Status != Info {
		t.Errorf("userns.nested: %v, %q", c.Status, c.Evidence)
	}
}

// wordsForProc are those for the container this machine may look like.
func wordsForProc(t *testing.T) *fault {
	t.Helper()
	switch ThisProcess().nesting().kind {
	case nestDocker:
		return &procDocker
	case nestPodman:
		return &procPodman
	case nestKubernetes:
		return &procKube
	}
	return &procRefused
}

func TestFilterAgainstNamespaces(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := ask(t, helperCommand(t, "filtered", ordinary()))
	c := s.check("userns.create")
	if s.Report.Verdict != CannotRun || c.Status != Fail ||
		!strings.Contains(c.Evidence, "make a user namespace and map this user to root in it: EPERM") {
		t.Errorf("userns.create: %v, %q", c.Status, c.Evidence)
	}
	if c := s.check("kernel.clone3"); c.Status != Warn || !strings.Contains(c.Evidence, "ENOSYS") {
		t.Errorf("kernel.clone3: %v, %q", c.Status, c.Evidence)
	}
}

func TestFilterAgainstPivotRoot(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	bad(t, "no-pivot", 0, "mount.pivot", &pivotRefused, "EPERM")
}

func TestFilterAgainstMemfd(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := bad(t, "no-memfd", 0, "memfd.exec", &memfdRefused, "EPERM")
	// The other probes go on from the program's file.
	if c := s.check("userns.create"); c.Status != OK || !strings.Contains(c.Evidence, "the program's file") {
		t.Errorf("userns.create: %v, %q", c.Status, c.Evidence)
	}
}

func TestFilterAgainstOpenat2(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	s := bad(t, "no-openat2", 0, "kernel.openat2", &featureFiltered, "ENOSYS")
	if !slices.Contains(idsOf(s.Blocking, Fail), "kernel.openat2") {
		t.Errorf("Blocking does not see it: %v", s.Blocking)
	}
}

func TestFilterAgainstSeccomp(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	bad(t, "no-seccomp", 0, "kernel.seccomp-filter", &featureFiltered, "EPERM")
}

func TestMemfdForbidden(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Root)
	if _, err := os.Stat("/proc/sys/vm/memfd_noexec"); err != nil {
		t.Skip("needs vm.memfd_noexec, Linux 6.3")
	}
	s := bad(t, "memfd-noexec", unix.CLONE_NEWNS|unix.CLONE_NEWPID, "memfd.noexec", &memfdForbidden, "vm.memfd_noexec is 2")
	if c := s.check("memfd.exec"); c.Status != Fail || !strings.Contains(c.Evidence, "EACCES") {
		t.Errorf("memfd.exec: %v, %q", c.Status, c.Evidence)
	}
	if !slices.Contains(idsOf(s.Blocking, Fail), "memfd.noexec") {
		t.Errorf("Blocking does not see it: %v", s.Blocking)
	}
}
