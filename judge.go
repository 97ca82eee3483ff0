package isolate

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/plan"
)

// judge fills in how the run ended: from what we did (cause), from how the
// program ended, and from what the kernel counted since it was started.
func (b *box) judge(res *Result, w watch, cause Reason, notStarted *container.NotStartedError) error {
	exit := w.proc.Exit()
	use, err := b.sandbox.Usage()
	if err != nil {
		return fmt.Errorf("cannot read usage: %w", err)
	}
	res.Usage.CPU, res.Usage.Memory = use.CPU, use.MemoryPeak
	res.Usage.OOMKills, res.Usage.PIDsDenied = use.OOMKills-w.met.OOMKills, use.PIDsDenied-w.met.PIDsDenied
	if use.CPU == 0 {
		res.Usage.CPU = exit.User + exit.System // no controller counted
	}
	defer func() { res.Usage.CPU -= w.met.CPU }()
	res.Reason, res.ExitCode, res.Signal = ended(exit)
	if notStarted != nil {
		res.Reason, res.Signal, res.Detail = ReasonExit, 0, notStarted.Error()
		res.NotStarted, res.ExitCode = "not-executable", 126
		if notStarted.Errno == unix.ENOENT || notStarted.Errno == unix.ENOTDIR {
			res.NotStarted, res.ExitCode = "not-found", 127
		}
		return nil
	}
	switch {
	case cause != "":
		res.Reason = cause
	case res.Signal == int(unix.SIGXCPU) && spent(res.Usage.CPU, b.plan.Limits.CPUTime):
		res.Reason = ReasonCPU
	}
	b.attribute(res, cause)
	res.Detail = b.detail(res, w.wall) // of a limit of processor time it says what counts against it
	return nil
}

// ended translates a wait status.
func ended(e container.Exit) (Reason, int, int) {
	if e.Lost { // init was killed, and everything with it
		return ReasonSignal, 128 + int(unix.SIGKILL), int(unix.SIGKILL)
	}
	if !e.Status.Signaled() {
		return ReasonExit, e.Status.ExitStatus(), 0
	}
	sig := e.Status.Signal()
	reason := ReasonSignal
	switch sig {
	case unix.SIGSYS:
		reason = ReasonPolicy
	case unix.SIGXFSZ:
		reason = ReasonDisk
	}
	return reason, 128 + int(sig), int(sig)
}

// spent tells whether a limit of processor time (0: none) is used up, so that a
// SIGXCPU came of it: programs send themselves that signal, or set a limit of
// their own. A tenth is allowed for, because the kernel counts the limit by ticks.
func spent(used, limit time.Duration) bool {
	return limit > 0 && used >= limit-limit/10
}

// callersCPU is the limit of processor time that the caller has itself and that
// is passed on where the policy sets none; 0 if there is none.
func callersCPU(pl plan.Plan) time.Duration {
	if pl.Limits.CPUTime > 0 {
		return 0
	}
	for _, l := range pl.Rlimits {
		if l.Resource == unix.RLIMIT_CPU && l.Soft <= math.MaxInt32 {
			return time.Duration(l.Soft) * time.Second
		}
	}
	return 0
}

// attribute names the limit behind a failure. A program that succeeds although
// it met a limit keeps its success; the counters are in the usage.
func (b *box) attribute(res *Result, cause Reason) {
	failed := res.ExitCode != 0
	switch {
	case !failed || cause == ReasonCancelled || cause == ReasonOutput || cause == ReasonCPU:
	case res.Usage.OOMKills > 0:
		res.Reason = ReasonOOM
	case res.Reason == ReasonPolicy || res.Reason == ReasonCPU:
	case res.Usage.PIDsDenied > 0:
		res.Reason = ReasonPIDs
	case cause == "" && b.full():
		res.Reason = ReasonDisk
	}
}

// full tells whether the writable part has no block or inode left. What a
// program has deleted again is not seen.
func (b *box) full() bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(b.sandbox.Workspace.Fd()), &st) != nil {
		return false
	}
	return st.Bavail == 0 || st.Ffree == 0
}

// signalName is a signal's name, or its number where it has none (real-time
// signals).
func signalName(number int) string {
	if name := unix.SignalName(unix.Signal(number)); name != "" {
		return name
	}
	return strconv.Itoa(number)
}

// detail says which limit it was, for people.
func (b *box) detail(res *Result, wall time.Duration) string {
	l := b.plan.Limits
	switch res.Reason {
	case ReasonWall:
		return fmt.Sprintf("ended by the wall-clock limit of %s", wall)
	case ReasonCPU:
		return fmt.Sprintf("ended by the processor-time limit of %s (used %s)", l.CPUTime, res.Usage.CPU.Round(time.Millisecond))
	case ReasonOOM:
		return fmt.Sprintf("the memory limit of %s was met; processes killed: %d", Size(l.Memory), res.Usage.OOMKills)
	case ReasonPIDs:
		return fmt.Sprintf("the limit of %d processes was met %d times", l.PIDs, res.Usage.PIDsDenied)
	case ReasonDisk:
		return fmt.Sprintf("the disk limit of %s and %d files was met", Size(b.plan.Disk), b.plan.Inodes)
	case ReasonOutput:
		return fmt.Sprintf("a stream passed the output limit of %s", Size(l.Output))
	case ReasonPolicy:
		return "profile " + b.plan.Profile + " ended the program for a system call of a foreign architecture"
	case ReasonCancelled:
		return "the caller ended the run"
	case ReasonSignal:
		text := "ended by signal " + signalName(res.Signal)
		if own := callersCPU(b.plan); own > 0 && (res.Signal == int(unix.SIGKILL) || res.Signal == int(unix.SIGXCPU)) && res.Usage.CPU >= own-own/4 { // it counts by ticks
			text += fmt.Sprintf(" after the %s of processor time that the caller's own limit gives (ulimit -t)", own)
		}
		return text
	}
	return ""
}
