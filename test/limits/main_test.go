// Package limits_test runs programs that take too much, end badly or never,
// and checks that each is contained, that its result names the limit it met,
// and that nothing of it is left.
//
// The numbers in the names and comments of its tests are those of the
// project's list of cases: A are local-sandbox cases, B attacks and faults.
// Tests named TestLimits… need no compiler and also run in the cgroup v2
// guest of test/vm. It needs Linux 5.14 with user namespaces, a cgroup that
// the caller may divide, and the tools that each test asks testenv for.
package limits_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// roleVariable makes the test binary play another process than the tests.
const roleVariable = "ISOLATE_LIMITS_ROLE"

// roles are what the binary can play; each returns an exit code.
var roles = map[string]func() int{
	"supervisor": supervise,
	"powerless":  runWithoutCgroups,
	"fuzz":       fuzz,
}

func TestMain(m *testing.M) {
	isolate.Init()
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(roles[role]())
	}
	// Whatever a killed process leaves becomes our child, so that it is seen.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "cannot become a subreaper: %v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}
