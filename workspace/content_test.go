package workspace

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// during is a context that does something when it is looked at for the n-th
// time: copyContent looks once for each piece.
type during struct {
	context.Context
	n  int
	do func()
}

func (d *during) Err() error {
	if d.n--; d.n == 0 {
		d.do()
	}
	return nil
}

// What a program does to a file in the middle of its copy.
func TestCopyContent(t *testing.T) {
	const size = 4 * bufSize
	for name, c := range map[string]struct {
		change func(f *os.File)
		note   string
		size   int64
	}{
		"nothing":        {func(*os.File) {}, "", size},
		"grows":          {func(f *os.File) { f.WriteAt([]byte("more"), size) }, "grew while", size},
		"grows by 1 TiB": {func(f *os.File) { f.Truncate(1 << 40) }, "grew while", size},
		"is cut":         {func(f *os.File) { f.Truncate(bufSize + 5) }, "became shorter", bufSize + 5},
		"is emptied":     {func(f *os.File) { f.Truncate(0) }, "became shorter", bufSize},
		"is rewritten":   {func(f *os.File) { f.WriteAt([]byte("x"), size-1) }, "was changed", size},
		"is cut and filled": {func(f *os.File) {
			f.Truncate(0)
			f.WriteAt([]byte("x"), size-1)
		}, "was changed", size},
		"gets another mode": {func(f *os.File) { f.Chmod(0o600) }, "was changed", size},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.OpenFile(tempDir(t)+"/src", os.O_RDWR|os.O_CREATE, 0o644)
			must(t, err)
			defer src.Close()
			_, err = src.WriteAt([]byte(strings.Repeat("d", size)), 0)
			must(t, err)
			before, err := dirfd.Stat(src)
			must(t, err)
			host := tempDir(t)
			dst, err := os.Create(host + "/f")
			must(t, err)
			defer dst.Close()
			// The second look is before the second piece.
			ctx := &during{t.Context(), 2, func() { c.change(src) }}
			got, err := copyContent(ctx, dst, src, before, make([]byte, bufSize))
			must(t, err)
			if got.size != c.size || c.note == "" && got.note != "" || !strings.Contains(got.note, c.note) {
				t.Errorf("%d bytes, note %q; want %d, %q", got.size, got.note, c.size, c.note)
			}
			m := Manifest{Files: []Entry{{Path: "f", Size: got.size, SHA256: got.sum, Mode: "0644"}}, Bytes: got.size}
			must(t, dst.Chmod(0o644))
			compare(t, host, m)
		})
	}
}

// The file ends inside what was a hole, and data and holes alternate.
func TestCopyContentHoles(t *testing.T) {
	for name, c := range map[string]struct {
		fill   func(f *os.File)
		looks  int
		change func(f *os.File)
		size   int64
	}{
		"only a hole": {func(f *os.File) { f.Truncate(10 << 20) }, 1, func(*os.File) {}, 10 << 20},
		"a hole that is cut": {func(f *os.File) {
			f.WriteAt([]byte(strings.Repeat("d", 2*bufSize)), 0)
			f.Truncate(10 << 20)
		}, 2, func(f *os.File) { f.Truncate(5 << 20) }, 5 << 20},
		"a chequered file": {func(f *os.File) {
			for off := int64(0); off < 2<<20; off += 8192 {
				f.WriteAt([]byte("data"), off)
			}
		}, 5, func(*os.File) {}, 2<<20 - 8192 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := os.OpenFile(tempDir(t)+"/src", os.O_RDWR|os.O_CREATE, 0o644)
			must(t, err)
			defer src.Close()
			c.fill(src)
			before, err := dirfd.Stat(src)
			must(t, err)
			host := tempDir(t)
			dst, err := dirfd.CreateBeneath(handle(t, host), "f", 0o644)
			must(t, err)
			defer dst.Close()
			ctx := &during{t.Context(), c.looks, func() { c.change(src) }}
			got, err := copyContent(ctx, dst, src, before, make([]byte, bufSize))
			must(t, err)
			if got.size != c.size {
				t.Errorf("%d bytes, want %d", got.size, c.size)
			}
			compare(t, host, Manifest{Files: []Entry{{Path: "f", Size: got.size, SHA256: got.sum, Mode: "0644"}}, Bytes: got.size})
			var st unix.Stat_t
			must(t, unix.Stat(host+"/f", &st))
			if st.Blocks*512 > 4<<20 {
				t.Errorf("%d bytes allocated", st.Blocks*512)
			}
		})
	}
}
