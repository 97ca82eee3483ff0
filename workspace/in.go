package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// CopyIn copies host files and directories beneath dir, a handle of
// /workspace. Inputs that CheckInputs finds fault with, and a source directory
// that holds dir, give a *Refusal and nothing is copied.
//
// The source itself may be a symbolic link. Below a source directory a link is
// copied as a link when it is relative and its text stays inside the
// directory; other links, special files, other mounts, names that
// dirfd.CheckName refuses and files that may not be read are left out and
// listed. Hard links become separate files.
//
// Each file is written beside its place under a name of its own and then
// renamed, so a program that runs already sees the old file or the new one,
// whole; what was in its place is replaced and never followed. Two inputs that
// write the same file are an error, as is a tree over the limits. After an
// error what was copied stays, and the Manifest lists it; an error of a full
// workspace wraps ENOSPC.
func CopyIn(ctx context.Context, dir *os.File, in []Input, lim Limits) (Manifest, error) {
	lim, err := lim.filled()
	if err != nil {
		return Manifest{}, err
	}
	if err := refuse(CheckInputs(in)...); err != nil {
		return Manifest{}, err
	}
	if len(in) == 0 {
		return Manifest{Files: []Entry{}}, nil
	}
	c := &inCopy{
		ctx: ctx, lim: lim, names: lim.MaxFiles, buf: make([]byte, bufSize),
		owner: map[string]int{}, m: Manifest{Files: []Entry{}},
	}
	problems, err := holding(in, dir)
	if err != nil {
		return c.m, fmt.Errorf("cannot copy into the workspace: %w", err)
	}
	if err := refuse(problems...); err != nil {
		return c.m, err
	}
	for n, i := range in {
		c.input = n
		if err := c.copy(dir, i); err != nil {
			return c.m, fmt.Errorf("%s: %w", i.what(), c.explain(dir, err))
		}
	}
	return c.m, nil
}

type inCopy struct {
	ctx   context.Context
	lim   Limits
	names int // entries that may still be copied
	input int
	owner map[string]int // which input wrote a path
	buf   []byte
	m     Manifest
}

// holding finds the sources that the workspace lies in.
func holding(in []Input, dir *os.File) (all []Problem, err error) {
	for _, i := range in {
		s, p := openSource(i)
		if p != nil {
			all = append(all, *p)
			continue
		}
		s.file.Close()
		if !s.dir {
			continue
		}
		inside, err := dirfd.Inside(dir, s.st)
		// A way up that cannot be searched is no way down either.
		if err != nil && !errors.Is(err, unix.EACCES) {
			return nil, err
		}
		if inside {
			all = append(all, Problem{
				What: i.what(), Rule: "the workspace lies in it", Remedy: "give a directory that does not hold the workspace",
			})
		}
	}
	return all, nil
}

func (c *inCopy) copy(dir *os.File, i Input) error {
	s, p := openSource(i)
	if p != nil {
		return refuse(*p)
	}
	defer s.file.Close()
	target := i.target(s.dir)
	parents := target
	if !s.dir {
		parents = strings.TrimPrefix(path.Dir("/"+target), "/")
	}
	dst, err := c.descend(dir, parents)
	if err != nil {
		return err
	}
	defer dst.Close()
	if !s.dir {
		if err := c.count(1); err != nil {
			return err
		}
		return c.file(dst, target, s.file, s.st)
	}
	return c.directory(tree{src: s.file, dst: dst, target: target})
}

// descend opens the directory rel beneath dir and makes what is missing of it.
func (c *inCopy) descend(dir *os.File, rel string) (*os.File, error) {
	at, err := dirfd.Reopen(dir)
	if err != nil || rel == "" {
		return at, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := c.enter(at, name, 0o755)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// enter opens the directory name in dst, or makes it.
func (c *inCopy) enter(dst *os.File, name string, perm uint32) (*os.File, error) {
	next, err := dirfd.OpenBeneath(dst, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		err = c.lim.Owner.Do(func() (err error) {
			next, err = dirfd.MkdirBeneath(dst, name, perm)
			return err
		})
		if err == nil {
			c.m.Dirs++
		}
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w: a file or link of the workspace is in the way; remove it or give another target", err)
	}
	return next, err
}

// tree is a directory on both sides.
type tree struct {
	src, dst *os.File // src was not listed before
	rel      string   // of src, below the source directory
	target   string   // of dst, below the workspace
	depth    int
}

func (c *inCopy) directory(t tree) error {
	names, more, err := dirfd.ReadDirNames(t.src, c.names)
	if err != nil {
		return err
	}
	if more {
		names = append(names, "") // one too many, for count to refuse
	}
	if err := c.count(len(names)); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(t, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *inCopy) count(entries int) error {
	c.names -= entries
	if c.names < 0 {
		return overLimit(fmt.Sprintf("the inputs have more than %d entries; leave some out, or pack them into one archive", c.lim.MaxFiles))
	}
	return nil
}

func (c *inCopy) entry(t tree, name string) error {
	target := path.Join(t.target, name)
	fault := nameFault(dirfd.CheckName(name))
	if fault == "" {
		fault = nameFault(dirfd.CheckRel(target)) // its length
	}
	switch {
	case fault != "":
		// Not joined: that would clean the name.
		return c.m.leave(strings.TrimPrefix(t.target+"/"+name, "/"), unix.Stat_t{}, "the name "+fault)
	case len(name) > c.lim.MaxName:
		return c.m.leave(target, unix.Stat_t{}, fmt.Sprintf("the name is longer than %d bytes", c.lim.MaxName))
	case target == bridgeDir:
		return c.m.leave(target, unix.Stat_t{}, "the name belongs to the bridge")
	}
	st, err := dirfd.Lstat(t.src, name)
	if err != nil {
		return c.m.leave(target, st, reason(err))
	}
	switch kind := dirfd.KindOf(st.Mode); kind {
	case dirfd.Directory:
		return c.subdirectory(t, name, target)
	case dirfd.File:
		return c.openFile(t, name, target, st)
	case dirfd.Link:
		return c.link(t, name, target)
	default:
		return c.m.leave(target, st, kind.String())
	}
}

func (c *inCopy) subdirectory(t tree, name, target string) error {
	if t.depth >= c.lim.MaxDepth {
		return overLimit(fmt.Sprintf("%s is deeper than %d directories; leave it out, or pack it into an archive", dirfd.Shown(target), c.lim.MaxDepth))
	}
	src, err := dirfd.OpenBeneath(t.src, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return c.m.leave(target, unix.Stat_t{}, reason(err))
	}
	defer src.Close()
	st, err := dirfd.Stat(src)
	if err != nil {
		return err
	}
	dst, err := c.enter(t.dst, name, dirPerm(st.Mode))
	if err != nil {
		return err
	}
	defer dst.Close()
	return c.directory(tree{
		src: src, dst: dst, rel: path.Join(t.rel, name), target: target, depth: t.depth + 1,
	})
}

func (c *inCopy) openFile(t tree, name, target string, st unix.Stat_t) error {
	src, err := dirfd.OpenBeneath(t.src, name, unix.O_RDONLY)
	if err != nil {
		return c.m.leave(target, st, reason(err))
	}
	defer src.Close()
	st, err = dirfd.Stat(src)
	if err != nil {
		return err
	}
	if dirfd.KindOf(st.Mode) != dirfd.File {
		return c.m.leave(target, st, "became something else while it was copied")
	}
	return c.file(t.dst, target, src, st)
}

// file copies one open file to its place in dst.
func (c *inCopy) file(dst *os.File, target string, src *os.File, st unix.Stat_t) error {
	switch {
	case st.Size > c.lim.MaxFile && c.lim.MaxFile < c.lim.MaxBytes:
		return overLimit(fmt.Sprintf("%s holds more than %s, the limit of one file", dirfd.Shown(target), bytesText(c.lim.MaxFile)))
	case st.Size > c.lim.MaxBytes-c.m.Bytes:
		return overLimit(fmt.Sprintf("with %s the inputs hold more than %s, the limit of the workspace; raise it with --disk",
			dirfd.Shown(target), bytesText(c.lim.MaxBytes)))
	}
	mode, note := filePerm(st.Mode), ""
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		note = "setuid or setgid bit removed"
	}
	var done copied
	err := c.place(dst, target, func(temp string) error {
		var f *os.File
		err := c.lim.Owner.Do(func() (err error) {
			f, err = dirfd.CreateBeneath(dst, temp, mode)
			return err
		})
		if err != nil {
			return err
		}
		done, err = copyContent(c.ctx, f, src, st, c.buf)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return err
	}
	c.m.Files = append(c.m.Files, Entry{
		Path: target, Size: done.size, Mode: octal(mode), SHA256: done.sum,
		Type: mediaType(target, done.head), Why: join(note, done.note),
	})
	c.m.Bytes += done.size
	return nil
}

// link copies a symbolic link as a link, if it keeps its meaning.
func (c *inCopy) link(t tree, name, target string) error {
	text, err := dirfd.Readlink(t.src, name, dirfd.MaxPath)
	if err != nil {
		return c.m.leave(target, unix.Stat_t{}, reason(err))
	}
	if why := linkFault(t.rel, text); why != "" {
		return c.m.leaveLink(target, text, why)
	}
	err = c.place(t.dst, target, func(temp string) error {
		return c.lim.Owner.Do(func() error { return dirfd.Symlink(t.dst, text, temp) })
	})
	if err != nil {
		return err
	}
	c.m.Files = append(c.m.Files, Entry{Path: target, Link: linkText(text), Why: "symbolic link"})
	return nil
}

// linkFault says why a link in the directory rel of the source is left out.
// It looks at the text alone: where a link passes through another, ".." may
// lead elsewhere, but nowhere that the program could not go by itself.
func linkFault(rel, text string) string {
	if path.IsAbs(text) {
		return "symbolic link with an absolute path"
	}
	for part := range strings.SplitSeq(text, "/") {
		if part == "" || part == "." || part == ".." {
			continue
		}
		if err := dirfd.CheckName(part); err != nil {
			return "symbolic link whose text is not a good path"
		}
	}
	if !filepath.IsLocal(path.Join(rel, text)) {
		return "symbolic link that leaves the source directory"
	}
	return ""
}

// place makes something under a name of its own in dst and renames it to the
// last part of target.
func (c *inCopy) place(dst *os.File, target string, produce func(temp string) error) error {
	if by, ok := c.owner[target]; ok && by != c.input {
		return fmt.Errorf("another input put a file at %s; give one of them another target", dirfd.Shown(target))
	}
	temp := ".isolate-" + rand.Text()
	err := produce(temp)
	if err == nil {
		err = c.lim.Owner.Do(func() error { return dirfd.Rename(dst, temp, dst, path.Base(target), 0) })
	}
	if err != nil {
		// It is not there when it could not be made, and no error of the
		// clean-up matters more than the one at hand.
		dirfd.Remove(dst, temp)
		if errno := unix.Errno(0); strings.Contains(err.Error(), temp) && errors.As(err, &errno) {
			err = errno // a name that nobody gave tells nobody anything
		}
		return fmt.Errorf("cannot write %s: %w", dirfd.Shown(target), err)
	}
	c.owner[target] = c.input
	return nil
}

// explain adds which limit a full workspace met and what to do.
func (c *inCopy) explain(dir *os.File, err error) error {
	if met, flag := limitMet(dir, err); met != "" {
		return fmt.Errorf("%w: %w", err, overLimit(met+"; raise it with "+flag))
	}
	return err
}

// limitMet says which limit a full workspace met, and which flag sets it. Both
// are empty if err is about something else.
func limitMet(dir *os.File, err error) (met, flag string) {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return "", ""
	}
	files, size := capacity(dir)
	if files.total > 0 && files.free == 0 {
		return fmt.Sprintf("the workspace has its limit of %d files and directories", files.total), "--inodes"
	}
	return "the workspace is full, its disk limit is " + bytesText(size.total), "--disk"
}

// amount is how much a file system holds; all 0 when it does not say.
type amount struct{ total, free int64 }

func capacity(dir *os.File) (files, size amount) {
	var fs unix.Statfs_t
	conn, err := dir.SyscallConn()
	if err == nil {
		ctlErr := conn.Control(func(fd uintptr) { err = unix.Fstatfs(int(fd), &fs) })
		err = errors.Join(err, ctlErr)
	}
	if err != nil {
		return amount{}, amount{}
	}
	return amount{int64(fs.Files), int64(fs.Ffree)}, amount{int64(fs.Blocks) * fs.Bsize, int64(fs.Bavail) * fs.Bsize}
}
