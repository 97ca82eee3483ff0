// Package rootfs describes the file view of a cell as one ordered list of
// operations: the host view, or a directory of the author's, with read-only
// binds and generated identity files on top.
//
// It looks at the host (to list what is there and to read small files) and
// changes nothing; package container carries the operations out. It needs
// Linux 5.11 for a directory view or binds, which are shown through an
// overlay so that no host path appears in the sandbox's mount table.
package rootfs

import (
	"path"
	"strconv"
	"strings"
)

// View is the file view of one cell.
type View struct {
	// Stages are the host paths that are bound under neutral names before the
	// operations run. They are gone when they have run.
	Stages []Stage `json:"stages"`
	// Ops build the new root below New, in order.
	Ops []Op `json:"ops"`
}

// Stage is one host path that the operations need.
type Stage struct {
	Source string `json:"source"` // absolute host path, resolved
	Name   string `json:"name"`   // where it is bound: "s/…"
	// Inode is what Source was when it was judged; the cell refuses anything
	// else. Zero means that nothing was judged: a directory of the host view.
	Inode Inode `json:"inode,omitzero"`
}

// Inode identifies a file of this host.
type Inode struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// New is where the new root is built; Skeleton holds what is laid over a
// directory view. Stages stand below StageDir, the host's /dev at Dev. They are
// relative to an empty directory that exists only until the cell's root has
// been exchanged.
const (
	New      = "n"
	Skeleton = "k"
	StageDir = "s"
	Dev      = StageDir + "/dev"
)

// bindPrefix begins the names of stages that are shown through an overlay with
// an empty directory, emptyStage.
const (
	bindPrefix = StageDir + "/ro"
	emptyStage = StageDir + "/empty"
	rootStage  = StageDir + "/root"
)

// Directories lists the directories that a view with these stages needs before
// its operations run, parents first.
func Directories(stages []Stage) []string {
	dirs := []string{New, StageDir}
	empty := false
	for _, s := range stages {
		if s.Name == rootStage {
			dirs = append(dirs, Skeleton)
		}
		empty = empty || strings.HasPrefix(s.Name, bindPrefix)
		dirs = append(dirs, s.Name)
	}
	if empty {
		dirs = append(dirs, emptyStage)
	}
	return dirs
}

// Kind says what an operation does.
type Kind string

// The kinds of operations.
const (
	Dir     Kind = "dir"     // make directory Target with Mode
	Link    Kind = "link"    // make symbolic link Target to Source
	File    Kind = "file"    // make file Target with Content and Mode
	Bind    Kind = "bind"    // bind Source with all below it on Target
	Tmpfs   Kind = "tmpfs"   // mount a tmpfs of Size bytes on Target
	Overlay Kind = "overlay" // mount the lower layers Source ("a:b") on Target
	Seal    Kind = "seal"    // make Target and all below read-only, nosuid, nodev
)

// Op is one operation. Target, and the Source of a bind, begin with one of the
// directories above.
type Op struct {
	Kind    Kind   `json:"kind"`
	Target  string `json:"target"`
	Source  string `json:"source,omitempty"`
	Content []byte `json:"-"`
	Digest  string `json:"content_sha256,omitempty"` // of Content
	Mode    uint32 `json:"mode,omitempty"`
	Size    int64  `json:"size,omitempty"`
}

func (o Op) String() string {
	s := string(o.Kind) + " " + strings.TrimPrefix(o.Target, New)
	switch o.Kind {
	case Link, Bind, Overlay:
		s += " <- " + o.Source
	case File:
		s += " (" + strconv.Itoa(len(o.Content)) + " bytes)"
	}
	return s
}

// tree collects operations and the directories they need.
type tree struct {
	base string // New or Skeleton
	ops  []Op
	made map[string]bool
}

func newTree(base string) *tree { return &tree{base: base, made: map[string]bool{"/": true}} }

// dir makes p and its parents, 0755 each.
func (t *tree) dir(p string) { t.dirMode(p, 0o755) }

func (t *tree) dirMode(p string, mode uint32) {
	p = path.Clean("/" + p)
	if t.made[p] {
		return
	}
	t.dir(path.Dir(p))
	t.made[p] = true
	t.ops = append(t.ops, Op{Kind: Dir, Target: t.base + p, Mode: mode})
}

func (t *tree) link(p, to string) {
	t.dir(path.Dir(p))
	t.made[p] = true
	t.ops = append(t.ops, Op{Kind: Link, Target: t.base + p, Source: to})
}

func (t *tree) file(p string, content []byte, mode uint32) {
	if t.made[p] {
		return
	}
	t.dir(path.Dir(p))
	t.made[p] = true
	t.ops = append(t.ops, Op{Kind: File, Target: t.base + p, Content: content, Digest: digest(content), Mode: mode})
}

func (t *tree) bind(stage, p string) {
	t.dir(p)
	t.ops = append(t.ops, Op{Kind: Bind, Target: t.base + p, Source: stage})
}
