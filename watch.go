package isolate

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/container/cgroup"
)

// watch waits for the end of one program and enforces what the kernel does not
// enforce by itself: wall time, processor time, output, cancellation, and on
// cgroup v1 the end of the whole tree after the memory limit killed a part.
type watch struct {
	box  *box
	proc *container.Process
	with company
	wall time.Duration
	over <-chan struct{}
	met  cgroup.Usage // what was counted before the program started

	used time.Duration // processor time at the last look
}

// Polling of counters: often near the start, where short limits are, then less,
// and rarely while the sandbox uses no processor, since nothing can be counted
// then: a program that waits costs its host nothing worth mentioning.
const (
	pollFirst = 5 * time.Millisecond
	pollLast  = 50 * time.Millisecond
	pollIdle  = time.Second
)

// until returns why we ended the program, or "" if it ended by itself.
func (w *watch) until(ctx context.Context, began time.Time) (Reason, error) {
	lim := w.box.plan.Limits
	stood := w.box.clock.stood()
	wall := time.NewTimer(w.wall - time.Since(began))
	defer wall.Stop()
	pause := pollFirst
	poll := time.NewTimer(pause)
	defer poll.Stop()
	for {
		select {
		case <-w.proc.Done():
			return "", nil
		case <-wall.C:
			// the time in which a person was asked does not count
			if left := w.wall + w.box.clock.stood() - stood - time.Since(began); left > 0 {
				wall.Reset(max(left, pollFirst))
				continue
			}
			return ReasonWall, w.end(lim.Grace)
		case <-ctx.Done():
			return ReasonCancelled, w.end(lim.Grace)
		case <-w.box.runtime.closing:
			return ReasonCancelled, w.end(lim.Grace)
		case <-w.over:
			return ReasonOutput, w.end(0)
		case <-poll.C:
			reason, next, err := w.counters(lim.CPUTime)
			if err != nil {
				return "", err
			}
			if reason == ReasonCPU {
				return reason, w.end(lim.Grace)
			}
			if reason != "" {
				return reason, w.end(0)
			}
			pause = min(pause*2, next)
			poll.Reset(pause)
		}
	}
}

// counters looks at processor time and memory kills; next is how soon to look
// again at the latest.
func (w *watch) counters(limit time.Duration) (reason Reason, next time.Duration, err error) {
	next = pollLast
	leaf := w.box.sandbox.Leaf()
	used, err := leaf.CPUTime()
	if err == nil && used > 0 && used == w.used {
		next = pollIdle
	}
	w.used = used
	if limit > 0 {
		if err != nil {
			return "", 0, fmt.Errorf("cannot read processor time: %w", err)
		}
		if used >= limit {
			return ReasonCPU, 0, nil
		}
		next = min(next, max(time.Millisecond, (limit-used)/time.Duration(w.box.runtime.facts.CPUs)))
	}
	kills, err := leaf.OOMKills()
	if err != nil {
		return "", 0, fmt.Errorf("cannot read memory kills: %w", err)
	}
	if kills > w.met.OOMKills {
		return ReasonOOM, 0, nil
	}
	return "", next, nil
}

// end ends the program: SIGTERM and grace if there is any, then SIGKILL for
// everything. A program among others loses its process group; what left the
// group ends with the last program of the sandbox.
func (w *watch) end(grace time.Duration) error {
	if grace > 0 {
		_ = w.proc.Signal(unix.SIGTERM)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-w.proc.Done():
			return nil
		case <-t.C:
		}
	}
	var err error
	if w.with == alone {
		err = w.box.sandbox.Kill()
	} else {
		err = w.proc.Signal(unix.SIGKILL)
	}
	if err != nil {
		return err
	}
	t := time.NewTimer(killWait)
	defer t.Stop()
	again := time.NewTicker(killAgain)
	defer again.Stop()
	for {
		select {
		case <-w.proc.Done():
			return nil
		case <-again.C:
			if w.with == alone {
				if err := w.box.sandbox.Kill(); err != nil {
					return err
				}
			}
		case <-t.C:
			return fmt.Errorf("cannot end program: still there %s after SIGKILL", killWait)
		}
	}
}

// killAgain is how often a sandbox is killed until it is gone.
const killAgain = 20 * time.Millisecond
