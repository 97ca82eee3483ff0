package limits_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// someOutput is what is kept of a flood.
const someOutput = 1 * policy.MiB

// flood is a program that writes a known number of bytes, and how they end.
type flood struct {
	name   string
	script string
	stream func(isolate.Result) isolate.Stream
	bytes  int64
	head   string // what the first and the last byte of the kept part repeat
	tail   string
}

func stdout(r isolate.Result) isolate.Stream { return r.Stdout }
func stderr(r isolate.Result) isolate.Stream { return r.Stderr }

// A67, B42, C29, piston runaway_output, hive#2108: floods are drained, capped
// while they stream, and counted to the byte. The program is not stopped by
// it, and our own memory stays flat.
func TestLimitsOutputFloods(t *testing.T) {
	l := newLab(t, isolate.Options{})
	floods := []flood{
		{"1 GB on stderr", "yes | head -c 1000000000 >&2", stderr, 1_000_000_000, "y\n", "y\n"},
		{"NULs", "head -c 100000000 /dev/zero", stdout, 100_000_000, "\x00", "\x00"},
		{"one endless line", `head -c 100000000 /dev/zero | tr '\0' x`, stdout, 100_000_000, "x", "x"},
		{"a terminal's sequences", `yes "$(printf '\033]0;title\007\033[31m')" | head -c 50000000`, stdout, 50_000_000, "\x1b]0;title\a\x1b[31m\n", ""},
		{"below the limit", "head -c 1048576 /dev/zero", stdout, 1 << 20, "\x00", "\x00"},
		{"one over the limit", "head -c 1048577 /dev/zero", stdout, 1<<20 + 1, "\x00", "\x00"},
	}
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			mem := watchMemory()
			res := l.run(isolate.Policy{Output: someOutput}, isolate.Cmd{Args: []string{"sh", "-c", f.script}})
			mem.flat(t)
			ended(t, res, isolate.ReasonExit)
			f.check(t, f.stream(res))
		})
	}
}

func (f flood) check(t *testing.T, s isolate.Stream) {
	t.Helper()
	if s.Total != f.bytes {
		t.Errorf("%d bytes counted, want %d", s.Total, f.bytes)
	}
	dropped := max(0, f.bytes-int64(someOutput))
	if s.Dropped != dropped {
		t.Errorf("%d bytes dropped, want %d", s.Dropped, dropped)
	}
	marker := ""
	if dropped > 0 {
		marker = fmt.Sprintf("\n[isolate: %d bytes dropped]\n", dropped)
	}
	if want := min(f.bytes, int64(someOutput)) + int64(len(marker)); int64(len(s.Kept)) != want {
		t.Fatalf("%d bytes kept, want %d", len(s.Kept), want)
	}
	if !bytes.HasPrefix(s.Kept, []byte(f.head)) || !bytes.HasSuffix(s.Kept, []byte(f.tail)) {
		t.Errorf("begins with %q and ends with %q, want %q and %q", s.Kept[:8], s.Kept[len(s.Kept)-8:], f.head, f.tail)
	}
	if marker != "" && string(s.Kept[someOutput/2:int(someOutput)/2+len(marker)]) != marker {
		t.Error("the marker is not between the halves")
	}
}

// A67: `yes` until the deadline. Nobody can say how much it wrote, but what
// was kept and dropped adds up.
func TestLimitsYes(t *testing.T) {
	l := newLab(t, isolate.Options{})
	wall := 2 * time.Second
	if soak() {
		wall = 5 * time.Second
	}
	mem := watchMemory()
	res := l.run(isolate.Policy{Output: someOutput, Wall: wall}, isolate.Cmd{Args: []string{"yes"}})
	mem.flat(t)
	ended(t, res, isolate.ReasonWall)
	if w := res.Usage.Wall; w > wall+20*time.Second {
		t.Errorf("ended after %s", w)
	}
	if res.Stdout.Total < 10*int64(someOutput) || res.Stdout.Dropped != res.Stdout.Total-int64(someOutput) {
		t.Errorf("%d bytes, %d dropped", res.Stdout.Total, res.Stdout.Dropped)
	}
}

// A67: the same through a writer of the caller's, which sees head and tail and
// the marker, as it comes.
func TestLimitsFloodToWriter(t *testing.T) {
	l := newLab(t, isolate.Options{})
	var got bytes.Buffer
	res := l.run(isolate.Policy{Output: 1000}, isolate.Cmd{
		Args:   []string{"sh", "-c", "printf head; head -c 100000 /dev/zero | tr '\\0' -; printf tail"},
		Stdout: &got,
	})
	ended(t, res, isolate.ReasonExit)
	want := "head" + strings.Repeat("-", 496) + "\n[isolate: 99008 bytes dropped]\n" + strings.Repeat("-", 496) + "tail"
	if got.String() != want || res.Stdout.Total != 100008 || res.Stdout.Dropped != 99008 {
		t.Errorf("wrote %d bytes %q…; %d in total, %d dropped", got.Len(), shortened(got.Bytes()), res.Stdout.Total, res.Stdout.Dropped)
	}
}

// A67: a caller's writer that fails ends the copying, not the run, and what it
// did not take is counted.
func TestLimitsFloodToBrokenWriter(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{}, isolate.Cmd{
		Args:   []string{"sh", "-c", "head -c 1000000 /dev/zero; exit 3"},
		Stdout: writerFunc(func([]byte) (int, error) { return 0, os.ErrClosed }),
	})
	ended(t, res, isolate.ReasonExit)
	if s := res.Stdout; res.ExitCode != 3 || s.Total != 1_000_000 || s.Unwritten != 1_000_000 || s.Dropped != 0 {
		t.Errorf("code %d, %d in total, %d unwritten, %d dropped", res.ExitCode, s.Total, s.Unwritten, s.Dropped)
	}
}

// A67: the reason is output if that was asked for, and the run ends well
// before its time.
func TestLimitsEndOnOutput(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for name, args := range map[string][]string{
		"stdout": {"yes"},
		"stderr": {"sh", "-c", "exec yes >&2"},
	} {
		res := l.run(isolate.Policy{Output: someOutput, EndOnOutput: policy.EndRun, Wall: patience}, isolate.Cmd{Args: args})
		ended(t, res, isolate.ReasonOutput)
		if w := res.Usage.Wall; w > patience/2 {
			t.Errorf("%s: ended after %s", name, w)
		}
	}
	res := l.run(isolate.Policy{Output: someOutput, EndOnOutput: policy.EndRun}, isolate.Cmd{Args: []string{"head", "-c", "1048576", "/dev/zero"}})
	ended(t, res, isolate.ReasonExit)
}

// memoryWatch looks at our own memory again and again.
type memoryWatch struct {
	stop  atomic.Bool
	start int64
	worst chan int64
}

func watchMemory() *memoryWatch {
	runtime.GC()
	w := &memoryWatch{start: residentMemory(), worst: make(chan int64, 1)}
	go func() {
		var worst int64
		for !w.stop.Load() {
			worst = max(worst, residentMemory())
			time.Sleep(5 * time.Millisecond)
		}
		w.worst <- worst
	}()
	return w
}

// flat ends the watch. The kept part may be copied a few times; a flood is
// many times larger.
func (w *memoryWatch) flat(t testing.TB) {
	t.Helper()
	w.stop.Store(true)
	if grown := <-w.worst - w.start; grown > 24<<20 {
		t.Errorf("our own memory grew by %d MiB", grown>>20)
	}
}

// residentMemory is what this process has in memory of its own, in bytes. Pages
// of files, our own program's among them, come and go as the kernel likes.
func residentMemory() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	all, _ := strconv.ParseInt(f[1], 10, 64)
	ofFiles, _ := strconv.ParseInt(f[2], 10, 64)
	return (all - ofFiles) * int64(os.Getpagesize())
}

// soak tells whether the long form of the tests was asked for.
func soak() bool { return os.Getenv("ISOLATE_SOAK") == "1" }
