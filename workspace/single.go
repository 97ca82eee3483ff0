package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Reclaim gives the owner of dir, a handle of /workspace, the rights to it that a
// program has taken away. The rights of others, and of what is in it, stay as they
// are. A program that runs may take them away again.
func Reclaim(dir *os.File) error {
	st, err := dirfd.Stat(dir)
	if err != nil || st.Mode&unix.S_IRWXU == unix.S_IRWXU {
		return err
	}
	if err := dirfd.Chmod(dir, st.Mode&0o7777|unix.S_IRWXU); err != nil {
		return fmt.Errorf("cannot open the workspace to its owner again: %w", err)
	}
	return nil
}

// OpenFile opens the file rel beneath dir, a handle of /workspace, for reading.
// Links are not followed, and what is no file is refused.
func OpenFile(dir *os.File, rel string) (*os.File, error) {
	f, err := dirfd.OpenBeneath(dir, rel, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if _, err := dirfd.Regular(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot open %s: %w", dirfd.Shown(rel), err)
	}
	return f, nil
}

// Put writes what from holds to rel beneath dir, a handle of /workspace, and
// makes the directories on the way. The file appears whole or not at all, with
// the permission bits of mode; what was there is replaced and never followed.
func Put(ctx context.Context, dir *os.File, rel string, mode uint32, from io.Reader, lim Limits) (Entry, error) {
	lim, err := lim.filled()
	if err != nil {
		return Entry{}, err
	}
	if err := dirfd.CheckRel(rel); err != nil {
		return Entry{}, fmt.Errorf("cannot write: %w", err)
	}
	if first, _, _ := strings.Cut(rel, "/"); first == bridgeDir {
		return Entry{}, fmt.Errorf("cannot write %s: the name belongs to the bridge: %w", dirfd.Shown(rel), unix.EPERM)
	}
	c := &inCopy{ctx: ctx, lim: lim, owner: map[string]int{}, buf: make([]byte, bufSize)}
	dst, err := c.descend(dir, strings.TrimPrefix(path.Dir("/"+rel), "/"))
	if err != nil {
		return Entry{}, fmt.Errorf("cannot write %s: %w", dirfd.Shown(rel), named(dir, err))
	}
	defer dst.Close()
	entry := Entry{Path: rel, Mode: octal(filePerm(mode))}
	err = c.place(dst, rel, func(temp string) error {
		var f *os.File
		err := lim.Owner.Do(func() (err error) {
			f, err = dirfd.CreateBeneath(dst, temp, filePerm(mode))
			return err
		})
		if err != nil {
			return err
		}
		sum := sha256.New()
		entry.Size, err = io.CopyBuffer(io.MultiWriter(f, sum), &bounded{ctx: ctx, from: from, left: lim.MaxBytes}, c.buf)
		entry.SHA256 = hex.EncodeToString(sum.Sum(nil))
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return Entry{}, named(dir, err)
	}
	return entry, nil
}

// named adds which limit a full workspace met. What can be done about it is for
// who keeps the workspace to say.
func named(dir *os.File, err error) error {
	if met, _ := limitMet(dir, err); met != "" {
		return fmt.Errorf("%w: %w", err, overLimit(met))
	}
	return err
}

// bounded reads no more than left bytes, and fails if there are more.
type bounded struct {
	ctx  context.Context
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("it holds more than the limit of the workspace: %w", unix.EFBIG)
	}
	return n, err
}

// Listed is one entry of a directory.
type Listed struct {
	// Name is fit to be shown; one that is not is escaped as in a Go string,
	// and cannot be opened by name.
	Name string
	// Kind is "file", "directory", "symbolic link" and so on.
	Kind string
	// Size is the size of a file in bytes; 0 for everything else.
	Size int64
	// Mode are the permission bits in octal.
	Mode string
}

// List lists the directory rel beneath dir, a handle of /workspace; "" is dir
// itself. At most limit entries are listed, by name; more says that there are
// others.
func List(dir *os.File, rel string, limit int) (list []Listed, more bool, err error) {
	var d *os.File
	if rel == "" {
		d, err = dirfd.Reopen(dir)
	} else {
		d, err = dirfd.OpenBeneath(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	names, more, err := dirfd.ReadDirNames(d, limit)
	if err != nil {
		return nil, false, err
	}
	slices.Sort(names)
	for _, name := range names {
		e := Listed{Name: dirfd.Shown(name)}
		if dirfd.CheckName(name) == nil {
			e.Name = name
			if st, err := dirfd.Lstat(d, name); err == nil {
				e.Kind, e.Mode = dirfd.KindOf(st.Mode).String(), octal(st.Mode&0o777)
				if dirfd.KindOf(st.Mode) == dirfd.File {
					e.Size = st.Size
				}
			}
		}
		list = append(list, e)
	}
	return list, more, nil
}
