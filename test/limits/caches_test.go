package limits_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// B48: what a run puts into the kernel's caches is charged to it and given up
// again: it goes on under a limit far below what it reads, and so does the host.
func TestLimitsCaches(t *testing.T) {
	l := newLab(t, isolate.Options{})
	host := watchHost(t)
	before := freeMemory(t)
	res := l.run(isolate.Policy{Memory: someMemory, Wall: 2 * time.Minute}, hostile(t, "caches.py"))
	host.responsive(t)
	ended(t, res, isolate.ReasonExit)
	says(t, res, "usable True")
	if peak := res.Usage.Memory; peak > int64(someMemory)+4096 {
		t.Errorf("peak of %d bytes under a limit of %d", peak, someMemory)
	}
	if lost := before - freeMemory(t); lost > 1<<30 {
		t.Errorf("the host has %d MiB less than before", lost>>20)
	}
}

// B47: a run has no swap: not where it is counted with memory, and not where
// it is counted apart.
func TestLimitsNoSwap(t *testing.T) {
	l := newLab(t, isolate.Options{})
	sb := l.kept(t, isolate.Policy{Memory: someMemory})
	says(t, in(t, sb, "echo here"), "here")
	limits := 0
	for _, id := range l.ids {
		for _, tree := range cgroupsNamed(id) {
			for file, want := range map[string]string{
				"memory.memsw.limit_in_bytes": strconv.FormatInt(int64(someMemory), 10),
				"memory.swap.max":             "0",
			} {
				found, _ := filepath.Glob(filepath.Join(tree, "s*", file))
				for _, name := range found {
					limits++
					if b, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(b)) != want {
						t.Errorf("%s says %q, %v; want %s", name, b, err, want)
					}
				}
			}
		}
	}
	if limits > 0 {
		return
	}
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil || strings.Count(string(swaps), "\n") > 1 {
		t.Errorf("this kernel cannot limit swap and has some: %s, %v", swaps, err)
	}
}

// A78: a program sees the limits it lives under, so that pools and heaps do
// not oversize.
func TestLimitsAreVisible(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{Memory: 100 * policy.MiB, CPUs: 0.5}, isolate.Cmd{Args: []string{"sh", "-c",
		"nproc; grep -c ^processor /proc/cpuinfo; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max; awk '/MemTotal/ { print $2 }' /proc/meminfo; ulimit -n"}})
	says(t, res, "1", "1", "104857600", "50000 100000", "102400", "1024")
}
