package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapping exchanges two names of a directory without pause until the test
// ends.
func swapping(t *testing.T, dir, a, b string) {
	t.Helper()
	at := handle(t, dir)
	fd := int(at.Fd())
	if err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE); err != nil {
		t.Skipf("RENAME_EXCHANGE is missing on this file system: %v", err)
	}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		done.Wait()
	})
}

// rounds is per test; the six tests together make some thousands.
func rounds() int {
	if testing.Short() {
		return 300
	}
	return 1000
}

// A program exchanges what is being copied for a link to the outside, all the
// time. No byte of the outside may come through (CVE-2018-15664 and
// CVE-2026-42306 of docker cp, CVE-2024-21626, compiler-explorer#6026).
func TestCopyOutSwapped(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, top string){
		"directory and link": func(t *testing.T, top string) {
			must(t, os.Symlink("../outside", top+"/ws/other"))
		},
		"directory and absolute link": func(t *testing.T, top string) {
			must(t, os.Symlink(top+"/outside", top+"/ws/other"))
		},
		"directory and link to the root": func(t *testing.T, top string) {
			must(t, os.Symlink("/", top+"/ws/other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := tempDir(t)
			put(t, top+"/outside/sub/f", "canary", 0o644)
			put(t, top+"/outside/f", "canary", 0o644)
			put(t, top+"/ws/d/sub/f", "inside", 0o644)
			put(t, top+"/ws/d/f", "inside", 0o644)
			prepare(t, top)
			swapping(t, top+"/ws", "d", "other")
			if name != "directory and link to the root" {
				raceIsReal(t, top+"/ws/d/f")
			}
			copyManyTimes(t, top+"/ws", 2)
		})
	}
}

func TestCopyOutSwappedFile(t *testing.T) {
	top := tempDir(t)
	put(t, top+"/outside", "canary", 0o644)
	put(t, top+"/ws/f", "inside", 0o644)
	must(t, os.Symlink("../outside", top+"/ws/other"))
	swapping(t, top+"/ws", "f", "other")
	raceIsReal(t, top+"/ws/f")
	copyManyTimes(t, top+"/ws", 1)
}

// The directory that is being walked is moved out from under the walk, and a
// link put in the place of its parent.
func TestCopyOutSwappedAbove(t *testing.T) {
	top := tempDir(t)
	put(t, top+"/outside/b/c/f", "canary", 0o644)
	put(t, top+"/ws/a/b/c/f", "inside", 0o644)
	must(t, os.Symlink("../outside", top+"/ws/other"))
	swapping(t, top+"/ws", "a", "other")
	raceIsReal(t, top+"/ws/a/b/c/f")
	copyManyTimes(t, top+"/ws", 1)
}

// A FIFO in the place of a file: an open that waits would never come back.
func TestCopyOutSwappedFIFO(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/f", "inside", 0o644)
	must(t, unix.Mkfifo(ws+"/other", 0o644))
	swapping(t, ws, "f", "other")
	begin := time.Now()
	copyManyTimes(t, ws, 1)
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

// raceIsReal shows that the exchange is fast enough to catch code that trusts
// a path: a plain read meets the canary.
func raceIsReal(t *testing.T, path string) {
	t.Helper()
	met := map[string]bool{}
	for range 100000 {
		b, _ := os.ReadFile(path)
		met[string(b)] = true
		if met["canary"] && met["inside"] {
			return
		}
	}
	t.Fatalf("a reader that follows links met only %v: the test proves nothing", met)
}

// copyManyTimes copies a tree out while it is changed. Over all rounds each of
// files must have been seen both copied and left out.
func copyManyTimes(t *testing.T, ws string, files int) {
	t.Helper()
	dir, top := handle(t, ws), tempDir(t)
	copies, left, between := 0, 0, 0
	for range rounds() {
		host := filepath.Join(top, "out")
		m, err := CopyOut(t.Context(), dir, host, Limits{})
		must(t, err)
		compare(t, host, m)
		for _, e := range m.Files {
			if got := text(t, filepath.Join(host, e.Path)); got != "inside" {
				t.Fatalf("%q holds %q", e.Path, got)
			}
		}
		if len(m.Files) > 2*files || len(m.Skipped) == 0 && len(m.Files) == 0 {
			t.Fatalf("%+v", m)
		}
		copies += len(m.Files)
		left += len(m.Skipped)
		for _, e := range m.Skipped {
			if strings.Contains(e.Why, "became something else") {
				between++
			}
		}
		must(t, os.RemoveAll(host))
	}
	t.Logf("%d entries were exchanged between the look and the open", between)
	if copies == 0 || left == 0 {
		t.Errorf("%d files copied and %d entries left out over all rounds: both should happen", copies, left)
	}
}

// Files that change all the time: the copy ends, within its limits, and the
// digests are of the bytes on the host. TestCopyContent has the notes.
func TestCopyOutChangingFile(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/grows", strings.Repeat("g", 1<<20), 0o644)
	put(t, ws+"/flickers", strings.Repeat("f", 1<<20), 0o644)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { change(t, ws, stop) })
	defer done.Wait()
	defer close(stop)
	changed := 0
	for range rounds() / 10 {
		m, _ := out(t, ws, Limits{})
		if len(m.Files) != 2 || m.Bytes > DefaultMaxBytes {
			t.Fatalf("%+v", m)
		}
		for _, e := range m.Files {
			if e.Why != "" {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("no round saw a change")
	}
}

// change appends to one file, up to a size, and empties and fills the other.
func change(t *testing.T, ws string, stop chan struct{}) {
	grows, err := os.OpenFile(ws+"/grows", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer grows.Close()
	flickers, err := os.OpenFile(ws+"/flickers", os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer flickers.Close()
	block := []byte(strings.Repeat("x", 4096))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if i%4000 == 0 {
			grows.Truncate(1 << 20)
		}
		grows.Write(block)
		flickers.Truncate(int64(i%2) << 20)
	}
}

// A note of a change is not given to files nobody touched.
func TestCopyOutQuietFile(t *testing.T) {
	ws := tempDir(t)
	put(t, ws+"/f", "x", 0o644)
	for range 100 {
		m, _ := out(t, ws, Limits{})
		if len(m.Files) != 1 || m.Files[0].Why != "" {
			t.Fatalf("%+v", m)
		}
	}
}
