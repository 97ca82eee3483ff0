package isolate

import (
	"bytes"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/container/cgroup"
	"github.com/isolate-run/isolate/host"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// gatherFacts is what a plan depends on, read once when a Runtime opens.
func gatherFacts(base *container.Base, o Options, checks []host.Check) plan.Facts {
	notify, killable := notification()
	f := plan.Facts{
		EUID: os.Geteuid(), EGID: os.Getegid(),
		CPUs:           runtime.NumCPU(),
		Caller:         OwnLimits(),
		CoreHandler:    plan.Have(coreHandler()),
		LimitsBy:       base.Cgroup.By(),
		Memory:         plan.Have(base.Cgroup.Has(cgroup.Memory)),
		PIDs:           plan.Have(base.Cgroup.Has(cgroup.PIDs)),
		CPU:            plan.Have(base.Cgroup.Has(cgroup.CPU)),
		CPUTime:        plan.Have(base.Cgroup.Has(cgroup.CPUAcct)),
		LimitsProblem:  limitsProblem(checks),
		Notify:         plan.Have(notify),
		NotifyKillable: plan.Have(killable),
		Surroundings:   surroundings(o.Dir),
		Network:        sync.OnceValue(func() plan.Problem { return networkProblem(o.NetHelper) }),
		IPv6:           plan.Have(hasIPv6()),
		OwnPorts:       o.OwnPorts,
	}
	f.MaskedFiles, f.MaskedDirs = plan.ProcMasks("/proc")
	return f
}

// hasIPv6 tells whether the kernel speaks it.
func hasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// coreHandler tells whether crash dumps go to a program or a socket of the
// host. What cannot be read is taken for one.
func coreHandler() bool {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	return err != nil || bytes.HasPrefix(pattern, []byte("|")) || bytes.HasPrefix(pattern, []byte("@"))
}

// notification probes seccomp user notification by asking for it with a filter
// at address 0: a kernel that knows the flags says EFAULT, one that does not
// EINVAL.
func notification() (notify, killable bool) {
	ask := func(flags uintptr) bool {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
		return errno == unix.EFAULT
	}
	return ask(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER),
		ask(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

// surroundings are the places of this user that no bind may show.
func surroundings(stateDir string) policy.Surroundings {
	home, _ := os.UserHomeDir()
	return policy.Surroundings{
		RuntimeDir:  os.Getenv("XDG_RUNTIME_DIR"),
		Home:        home,
		SSHAuthSock: os.Getenv("SSH_AUTH_SOCK"),
		StateDir:    stateDir,
	}
}
