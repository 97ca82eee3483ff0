package workspace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// measured runs a copy and holds its time and memory against bounds that do
// not depend on the size of the tree.
func measured(t *testing.T, ws string) Manifest {
	t.Helper()
	dir, host := handle(t, ws), filepath.Join(tempDir(t), "out")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	m, err := CopyOut(t.Context(), dir, host, Limits{})
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	must(t, err)
	t.Logf("took %v, allocated %d KiB", took, (after.TotalAlloc-before.TotalAlloc)>>10)
	if took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("allocated %d bytes in all", got)
	}
	compare(t, host, m)
	return m
}

// How many files are made in one directory. Making and removing a million
// takes a minute or more, the copy of them as long as that of these.
var files = flag.Int("files", 100_000, "files in TestCopyOutManyFiles")

func TestCopyOutManyFiles(t *testing.T) {
	ws := tempDir(t)
	fd := int(handle(t, ws).Fd())
	for i := range *files {
		must(t, unix.Mknodat(fd, fmt.Sprintf("f%d", i), unix.S_IFREG|0o644, 0))
	}
	m := measured(t, ws)
	if len(m.Files) != DefaultMaxFiles || len(m.Skipped) != 1 {
		t.Errorf("%d files, skipped %v", len(m.Files), m.Skipped)
	}
	skipped(t, m, "…", "10000 entries")
}

// Every entry a link with the longest text: the manifest stays small.
func TestCopyOutManyLinks(t *testing.T) {
	ws := tempDir(t)
	fd := int(handle(t, ws).Fd())
	for i := range 20_000 {
		must(t, unix.Symlinkat(strings.Repeat("x", 4000), fd, fmt.Sprintf("%0255d", i)))
	}
	if m := measured(t, ws); len(m.Files) != 0 || len(m.Skipped) != DefaultMaxFiles+1 {
		t.Errorf("%d files, %d skipped", len(m.Files), len(m.Skipped))
	}
}

// A hundred thousand directories, one in the other.
func TestCopyOutDeep(t *testing.T) {
	ws := tempDir(t)
	const levels = 100_000
	at, err := unix.Open(ws, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	defer flattenTree(ws)
	m := measured(t, ws)
	if m.Dirs != DefaultMaxDepth || len(m.Skipped) != 1 {
		t.Errorf("%d directories, skipped %v", m.Dirs, m.Skipped)
	}
	skipped(t, m, strings.Repeat("d/", 64)+"d", "deeper than 64")
}

// flattenTree removes a chain of directories too deep for os.RemoveAll.
func flattenTree(ws string) {
	for os.Rename(ws+"/d/d", ws+"/next") == nil {
		os.Remove(ws + "/d")
		os.Rename(ws+"/next", ws+"/d")
	}
}

// Wide and deep: the names held at once are bounded over all levels.
func TestCopyOutTree(t *testing.T) {
	ws := tempDir(t)
	at := ws
	for range 30 {
		must(t, os.MkdirAll(at, 0o755))
		for i := range 1000 {
			must(t, unix.Mknod(fmt.Sprintf("%s/%d", at, i), unix.S_IFREG|0o644, 0))
		}
		at += "/d"
	}
	m := measured(t, ws)
	if n := len(m.Files) + m.Dirs + len(m.Skipped) - 1; n != DefaultMaxFiles {
		t.Errorf("%d entries were looked at", n)
	}
}

// A directory that grows while it is read.
func TestCopyOutGrowingDirectory(t *testing.T) {
	ws := tempDir(t)
	fd := int(handle(t, ws).Fd())
	const enough = 300_000
	var made atomic.Int64
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for made.Load() < enough {
			select {
			case <-stop:
				return
			default:
				unix.Mknodat(fd, fmt.Sprintf("f%d", made.Add(1)), unix.S_IFREG|0o644, 0)
				if made.Load() > 2*DefaultMaxFiles { // it goes on for as long as a slow copy takes
					time.Sleep(50 * time.Microsecond)
				}
			}
		}
	})
	defer done.Wait()
	defer close(stop)
	for made.Load() < 2*DefaultMaxFiles {
		time.Sleep(time.Millisecond)
	}
	m := measured(t, ws)
	if made.Load() >= enough {
		t.Error("the directory stopped growing before the copy ended: the test proves nothing")
	}
	if len(m.Files) != DefaultMaxFiles || len(m.Skipped) != 1 {
		t.Errorf("%d files, skipped %v", len(m.Files), m.Skipped)
	}
}
