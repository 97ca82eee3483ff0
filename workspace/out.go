package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// bridgeDir is the name of the bridge's mount in the workspace. It is not the
// program's, so neither direction touches it.
const bridgeDir = "_rpc"

// CopyOut copies the tree beneath dir, a handle of /workspace, to the host
// directory host, which it makes with mode 0700, or which must be empty. Its
// parent must exist. A directory that cannot be used gives a *Refusal before
// anything is copied; see CheckOutput for asking earlier.
//
// Programs may run in the sandbox meanwhile: whatever they do, no file outside
// the tree is read, and nothing is waited for. But only a tree that stands
// still is copied as it was at one moment.
//
// The files are written straight into host. After an error, or a crash, those
// copied so far stay there, never half of one after an error; the Manifest
// with an error lists them.
func CopyOut(ctx context.Context, dir *os.File, host string, lim Limits) (Manifest, error) {
	return CopyOutOf(ctx, dir, "", host, lim)
}

// SourceError is the error of a directory of the workspace that cannot be copied.
type SourceError struct {
	Path string
	Err  error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("cannot copy %s: %v", dirfd.Shown(e.Path), e.Err)
}
func (e *SourceError) Unwrap() error { return e.Err }

// CopyOutOf is CopyOut of the directory rel beneath dir; "" is dir itself. What it
// holds is judged by its path beneath dir, which the Manifest has, too. The error
// is a *SourceError if there is no such directory; links are not followed.
func CopyOutOf(ctx context.Context, dir *os.File, rel, host string, lim Limits) (Manifest, error) {
	lim, err := lim.filled()
	if err != nil {
		return Manifest{}, err
	}
	from := place{}
	if rel == "" {
		from.src, err = dirfd.Reopen(dir)
	} else if from.src, err = dirfd.OpenBeneath(dir, rel, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		err = &SourceError{rel, err}
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("cannot copy the workspace: %w", err)
	}
	defer from.src.Close()
	if rel != "" {
		for name := range strings.SplitSeq(rel, "/") {
			from = from.within(name)
		}
	}
	from.dst, err = openOutput(host, from.src)
	if err != nil {
		return Manifest{}, err
	}
	defer from.dst.Close()
	c := &outCopy{ctx: ctx, lim: lim, names: lim.MaxFiles, buf: make([]byte, bufSize), m: Manifest{Files: []Entry{}}}
	err = c.directory(from)
	if err != nil {
		err = fmt.Errorf("cannot copy the workspace to %q: %w", host, err)
	}
	return c.m, err
}

// bufSize is one read: large enough that the calls cost little beside the
// digest, small enough to be made anew for each copy.
const bufSize = 128 << 10

type outCopy struct {
	ctx   context.Context
	lim   Limits
	names int // entries that may still be read
	full  bool
	buf   []byte
	m     Manifest
}

// place is a directory on both sides.
type place struct {
	src, dst *os.File
	path     []string // from the top
	folded   []string
	inGit    bool
	twin     bool // it, or a directory above, is one name with another
}

func (p place) below(name string) string {
	return strings.Join(append(slices.Clip(p.path), name), "/")
}

// within is the place of a directory in p, whose handles are still p's.
func (p place) within(name string) place {
	p.path, p.folded = append(slices.Clip(p.path), name), append(slices.Clip(p.folded), fold(name))
	p.inGit = p.inGit || isGitDirectory(p.folded, nil)
	return p
}

func (c *outCopy) directory(p place) error {
	names, more, err := dirfd.ReadDirNames(p.src, c.names)
	if err != nil {
		c.m.leave(p.below("."), unix.Stat_t{}, reason(err))
		return nil
	}
	slices.Sort(names)
	c.names -= len(names)
	if more && !c.full {
		c.full = true
		c.m.leave(p.below("…"), unix.Stat_t{}, fmt.Sprintf(
			"the limit of %d entries is reached: the rest of this directory, and of every other one, was not read", c.lim.MaxFiles))
	}
	double, holds := twins(names), map[string]bool{}
	for _, n := range names {
		holds[fold(n)] = true
	}
	p.inGit = p.inGit || isGitDirectory(p.folded, holds)
	for _, name := range names {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(p, name, double[name]); err != nil {
			return err
		}
	}
	return nil
}

// entry copies what is called name in p; twin is a name there that a file
// system without case takes for the same, or "".
func (c *outCopy) entry(p place, name, twin string) error {
	rel := p.below(name)
	if why := nameFault(dirfd.CheckName(name)); why != "" {
		return c.m.leave(rel, unix.Stat_t{}, "the name "+why)
	}
	switch {
	case len(name) > c.lim.MaxName:
		return c.m.leave(rel, unix.Stat_t{}, fmt.Sprintf("the name is longer than %d bytes", c.lim.MaxName))
	case len(rel) > dirfd.MaxPath:
		return c.m.leave(rel, unix.Stat_t{}, fmt.Sprintf("the path is longer than %d bytes", dirfd.MaxPath))
	}
	st, err := dirfd.Lstat(p.src, name)
	if err != nil {
		return c.m.leave(rel, st, reason(err))
	}
	switch kind := dirfd.KindOf(st.Mode); kind {
	case dirfd.Directory:
		return c.enter(p, name, rel, st, twin)
	case dirfd.File:
		return c.file(p, name, rel, st, twin)
	case dirfd.Link:
		text, err := dirfd.Readlink(p.src, name, linkMax)
		if err != nil {
			return c.m.leave(rel, st, reason(err))
		}
		return c.m.leaveLink(rel, text, kind.String()+", not followed")
	default:
		return c.m.leave(rel, st, kind.String())
	}
}

func (c *outCopy) enter(p place, name, rel string, st unix.Stat_t, twin string) error {
	if len(p.path) >= c.lim.MaxDepth {
		return c.m.leave(rel, unix.Stat_t{}, fmt.Sprintf("deeper than %d directories", c.lim.MaxDepth))
	}
	if c.lim.Bridge && rel == bridgeDir {
		return nil
	}
	src, err := dirfd.OpenBeneath(p.src, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EXDEV) && len(p.path) == 0 && name == bridgeDir {
		return nil
	}
	if err != nil {
		return c.m.leave(rel, unix.Stat_t{}, reason(err))
	}
	defer src.Close()
	dst, err := dirfd.MkdirBeneath(p.dst, name, dirPerm(st.Mode))
	if why := hostName(err); why != "" {
		return c.m.leave(rel, unix.Stat_t{}, why)
	}
	if err != nil {
		return hostFull(err)
	}
	defer dst.Close()
	c.m.Dirs++
	p = p.within(name)
	p.src, p.dst, p.twin = src, dst, p.twin || twin != ""
	return c.directory(p)
}

func (c *outCopy) file(p place, name, rel string, st unix.Stat_t, twin string) error {
	if why := c.tooMuch(st); why != "" {
		return c.m.leave(rel, st, why)
	}
	src, err := dirfd.OpenBeneath(p.src, name, unix.O_RDONLY)
	if err != nil {
		return c.m.leave(rel, st, reason(err))
	}
	defer src.Close()
	// From here on only the handle counts, not what Lstat said.
	st, err = dirfd.Regular(src)
	if err != nil {
		return c.m.leave(rel, unix.Stat_t{}, reason(err))
	}
	if why := c.tooMuch(st); why != "" {
		return c.m.leave(rel, st, why)
	}
	mode, remark := c.judge(p, name, st, twin)
	dst, err := dirfd.CreateBeneath(p.dst, name, mode)
	if why := hostName(err); why != "" {
		return c.m.leave(rel, st, why)
	}
	if err != nil {
		return hostFull(err)
	}
	done, err := copyContent(c.ctx, dst, src, st, c.buf)
	if closeErr := dst.Close(); err == nil && closeErr != nil {
		err = writeError{closeErr}
	}
	if err != nil {
		return c.failed(p.dst, name, rel, st, err)
	}
	c.m.Files = append(c.m.Files, Entry{
		Path: rel, Size: done.size, Mode: octal(mode), SHA256: done.sum,
		Type: mediaType(name, done.head), Why: join(remark, done.note),
	})
	c.m.Bytes += done.size
	return nil
}

// ActedOn is before the kind of file in Why, where tools of the host act on it.
const ActedOn = "tools of the host act on it: "

// judge gives the mode to write a file with and what is remarkable about it.
func (c *outCopy) judge(p place, name string, st unix.Stat_t, twin string) (uint32, string) {
	mode, remark := filePerm(st.Mode), ""
	switch {
	case twin != "":
		remark = fmt.Sprintf("%s and %s are one name where case does not count", dirfd.Shown(name), dirfd.Shown(twin))
	case p.twin:
		remark = "a directory above it is one name with another where case does not count"
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		remark = join(remark, "setuid or setgid bit removed")
	}
	tool := hostTool(append(slices.Clip(p.folded), fold(name)), p.inGit)
	if tool == "" {
		return mode, remark
	}
	remark = join(remark, ActedOn+tool)
	if tool == gitHook && mode&0o111 != 0 {
		mode &^= 0o111
		remark = join(remark, "written without its execute bits")
	}
	return mode, remark
}

// tooMuch says why a file of this size is left out.
func (c *outCopy) tooMuch(st unix.Stat_t) string {
	switch {
	case st.Size > c.lim.MaxFile:
		return fmt.Sprintf("larger than %s", bytesText(c.lim.MaxFile))
	case st.Size > c.lim.MaxBytes-c.m.Bytes:
		return fmt.Sprintf("with it the copy would pass %s", bytesText(c.lim.MaxBytes))
	}
	return ""
}

// failed removes the half file. An error of the source costs this file, one of
// the host or the caller's context ends the copy.
func (c *outCopy) failed(dst *os.File, name, rel string, st unix.Stat_t, err error) error {
	if rm := dirfd.Remove(dst, name); rm != nil {
		return errors.Join(err, rm)
	}
	var w writeError
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case errors.As(err, &w):
		return hostFull(fmt.Errorf("cannot write %s: %w", dirfd.Shown(rel), w.error))
	}
	return c.m.leave(rel, st, reason(err))
}

// openOutput makes or opens the host directory.
func openOutput(host string, src *os.File) (*os.File, error) {
	if err := refuse(CheckOutput(host)...); err != nil {
		return nil, err
	}
	host = filepath.Clean(host)
	parent, err := dirfd.Open(filepath.Dir(host))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	st, err := dirfd.Stat(src)
	if err != nil {
		return nil, err
	}
	// Where the way up cannot be searched nothing is known; the copy is then
	// bounded by its limits like any other.
	if in, _ := dirfd.Inside(parent, st); in {
		return nil, refuse(Problem{outWhat(host), "it lies in the workspace that is copied", "give a directory outside"})
	}
	err = unix.Mkdir(host, 0o700)
	if err != nil && err != unix.EEXIST {
		return nil, fmt.Errorf("cannot make directory %q: %w", host, err)
	}
	fd, err := unix.Open(host, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open directory %q: %w", host, err)
	}
	dst := os.NewFile(uintptr(fd), host)
	// Once more on the handle: it may have been made since the check.
	names, _, err := dirfd.ReadDirNames(dst, 1)
	if err == nil && len(names) > 0 {
		err = refuse(notEmpty(host))
	}
	if err != nil {
		dst.Close()
		return nil, err
	}
	return dst, nil
}

// CheckOutput says what is wrong with a host directory for CopyOut, before the
// program whose work would be lost runs. It changes nothing. None is nil.
func CheckOutput(host string) []Problem {
	if host == "" {
		return []Problem{{outWhat(host), "the directory's name is empty", "give a directory"}}
	}
	host = filepath.Clean(host)
	var st unix.Stat_t
	switch err := unix.Lstat(host, &st); {
	case err == unix.ENOENT:
		return checkParent(host)
	case err != nil:
		return []Problem{{outWhat(host), err.Error(), "give a directory that can be written"}}
	case dirfd.KindOf(st.Mode) != dirfd.Directory:
		return []Problem{{outWhat(host), "it is a " + dirfd.KindOf(st.Mode).String(),
			"give the directory itself, or a name that does not exist"}}
	}
	if p := writable(host, host); p != nil {
		return p
	}
	dir, err := dirfd.Open(host)
	if err != nil {
		return []Problem{{outWhat(host), err.Error(), "give a directory that can be read"}}
	}
	defer dir.Close()
	names, _, err := dirfd.ReadDirNames(dir, 1)
	switch {
	case err != nil:
		return []Problem{{outWhat(host), err.Error(), "give a directory that can be read"}}
	case len(names) > 0:
		return []Problem{notEmpty(host)}
	}
	return nil
}

func checkParent(host string) []Problem {
	parent := filepath.Dir(host)
	st, err := os.Stat(parent)
	switch {
	case err != nil:
		return []Problem{{outWhat(host), "its parent directory cannot be used: " + cause(err), fmt.Sprintf("make it first: mkdir -p %q", parent)}}
	case !st.IsDir():
		return []Problem{{outWhat(host), fmt.Sprintf("%q is not a directory", parent), "give another directory"}}
	}
	return writable(host, parent)
}

func writable(host, dir string) []Problem {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return []Problem{{outWhat(host), fmt.Sprintf("%q cannot be written: %v", dir, err), "give a directory that can be written"}}
	}
	return nil
}

func notEmpty(host string) Problem {
	return Problem{outWhat(host), "the directory is not empty, and nothing there is ever overwritten",
		"give an empty directory, or a name that does not exist"}
}

func outWhat(host string) string { return fmt.Sprintf("cannot copy the workspace to %q", host) }
