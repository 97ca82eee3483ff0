package limits_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// someMemory is a limit that is met quickly.
const someMemory = 48 * policy.MiB

// A57, B38: whatever way memory is taken, the limit of the whole tree ends it,
// and the reason is oom, not the signal that the kernel ended it with.
func TestLimitsMemoryHogs(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, hog := range []struct{ file, way string }{
		{"hogs.py", "heap"},
		{"hogs.py", "memfd"},
		{"hogs.py", "tmpfs"},
		{"hogs.py", "shm"},
		{"hogs.py", "children"},
		{"hogs.py", "pipes"},
		{"hogs.py", "sockets"},
		{"hogs.c", "malloc"},
		{"hogs.c", "shared"},
		{"hogs.c", "mapped-file"},
		{"hogs.c", "page-tables"},
	} {
		t.Run(hog.way, func(t *testing.T) {
			before := freeMemory(t)
			res := l.run(isolate.Policy{Memory: someMemory, Wall: patience}, hostile(t, hog.file, hog.way))
			ended(t, res, isolate.ReasonOOM)
			if res.Usage.OOMKills == 0 {
				t.Error("no process is counted as killed by the limit")
			}
			if res.ExitCode != 137 {
				t.Errorf("exit code %d, want 137 as after SIGKILL", res.ExitCode)
			}
			// One page more may be counted (memory.peak); 0 is a kernel that counts none.
			if peak := res.Usage.Memory; peak > int64(someMemory)+4096 || peak != 0 && peak < int64(someMemory)/2 {
				t.Errorf("peak of %d bytes under a limit of %d", peak, someMemory)
			}
			// The host's memory is its own again. Others use it too, so only
			// what would be a multiple of the limit counts.
			within(t, patience, func() error {
				if lost := before - freeMemory(t); lost > 1<<30 {
					return fmt.Errorf("the host has %d MiB less than before", lost>>20)
				}
				return nil
			})
		})
	}
}

// A57: what is below the limit is left alone, and several processes share it.
func TestLimitsMemoryBelowTheLimit(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{Memory: 2 * someMemory}, isolate.Cmd{
		Args: []string{"sh", "-c", "head -c 40M /dev/zero >/workspace/a && head -c 20M /dev/zero >/dev/shm/b && echo fits"},
	})
	ended(t, res, isolate.ReasonExit)
	says(t, res, "fits")
	if peak := res.Usage.Memory; peak != 0 && (peak < 60<<20 || peak > int64(2*someMemory)) {
		t.Errorf("peak of %d bytes for files of %d", peak, 60<<20)
	}
}

// A58: reserving is not using.
func TestReserveWithoutTouching(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{Memory: someMemory}, hostile(t, "reserve.c"))
	ended(t, res, isolate.ReasonExit)
	says(t, res, "reserved")
}

// A59, ianvs#820, homeboy#14656: a kill that is not the memory limit's is a
// signal, and one at the time limit is the time limit's. So is a signal that
// looks like a limit's, which the program sent itself or asked for.
func TestLimitsKillIsNotOOM(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, tt := range []struct {
		script string
		reason isolate.Reason
		signal int
	}{
		{"kill -9 $$", isolate.ReasonSignal, 9},
		{"kill -SEGV $$", isolate.ReasonSignal, 11},
		{"kill -9 0", isolate.ReasonSignal, 9},
		{"sh -c 'kill -9 $$'; exit 3", isolate.ReasonExit, 0},
		{"sleep 30", isolate.ReasonWall, 9},
		{"kill -XCPU $$", isolate.ReasonSignal, 24},
		{"ulimit -St 1; while :; do :; done", isolate.ReasonSignal, 24},
		{"exit 137", isolate.ReasonExit, 0},
	} {
		wall := patience
		if tt.reason == isolate.ReasonWall {
			wall = 3 * time.Second
		}
		res := l.run(isolate.Policy{Memory: someMemory, Wall: wall}, isolate.Cmd{Args: []string{"sh", "-c", tt.script}})
		if res.Reason != tt.reason || res.Signal != tt.signal || res.Usage.OOMKills != 0 {
			t.Errorf("%q ended by %s, signal %d, want %s, %d: %s", tt.script, res.Reason, res.Signal, tt.reason, tt.signal, describe(res))
		}
	}
}

// B84: a Java program that is told the limit by the flag that
// docs/rough-edges.md names keeps to it, without an OOM surprise.
func TestJavaHeap(t *testing.T) {
	for _, tool := range []string{"java", "javac"} {
		if _, err := os.Stat(filepath.Join("/usr/bin", tool)); err != nil {
			t.Skipf("needs %s in /usr/bin: %v", tool, err)
		}
	}
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{Memory: 256 * policy.MiB, Wall: patience}, isolate.Cmd{
		Args: []string{"sh", "-c", "javac -J-XX:MaxRAM=256m -d /tmp Heap.java && exec java -XX:MaxRAM=256m -cp /tmp Heap 256"},
		In:   []isolate.Input{{Source: filepath.Join("testdata", "Heap.java")}},
	})
	ended(t, res, isolate.ReasonExit)
	says(t, res, "heap fits", "threads 1225", "file text", "child 0", "collected", "loopback t")
}

// freeMemory is what the host could still give to programs, in bytes.
func freeMemory(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("meminfo has no MemAvailable")
	return 0
}
