package rootfs

import (
	"fmt"
	"os"
	"path"
	"strconv"
)

// CopiedFile is a host file that is shown as a read-only copy.
type CopiedFile struct {
	Target  string // absolute path inside
	Content []byte
	Mode    uint32 // permission bits
}

// BoundDir is a host directory that is shown read-only.
type BoundDir struct {
	Source string // absolute host path, resolved
	Target string // absolute path inside
	Inode  Inode  // what Source was when it was judged
}

// DirView is a directory of the author's as root, read-only. The skeleton lies
// over it as the upper of two lower layers: whatever the directory has at
// /proc, /dev, /etc/passwd and so on, links included, is hidden by ours and
// never followed.
func DirView(dir BoundDir, s Source, id Identity, m Machine, files []CopiedFile, binds []BoundDir) (View, error) {
	t := newTree(Skeleton)
	size := int64(rootSize)
	for _, f := range files {
		size += int64(len(f.Content))
	}
	if _, err := os.Lstat(path.Join(dir.Source, "node_modules")); err == nil {
		m.NodeModules = "" // it has modules of its own there
	}
	v := View{Stages: []Stage{
		{Source: dir.Source, Name: rootStage, Inode: dir.Inode},
		{Source: s.at("dev"), Name: Dev},
	}}
	t.ops = append(t.ops, Op{Kind: Tmpfs, Target: Skeleton, Size: size})
	identityFiles(t, id)
	skeleton(t, id, m, cpuFlags())
	for _, f := range files {
		t.file(f.Target, f.Content, f.Mode)
	}
	for _, b := range binds {
		t.dir(b.Target)
	}
	t.ops = append(t.ops, Op{Kind: Overlay, Target: New, Source: Skeleton + ":" + rootStage})
	t.base = New
	addBinds(t, &v, nil, binds)
	t.ops = append(t.ops, Op{Kind: Seal, Target: New})
	devices(t)
	v.Ops = t.ops
	return v, nil
}

// addBinds shows the author's files and directories. A directory is shown
// through an overlay of itself and an empty directory: the mount table then
// names the stage, not the host path.
func addBinds(t *tree, v *View, files []CopiedFile, binds []BoundDir) {
	for _, f := range files {
		t.file(f.Target, f.Content, f.Mode)
	}
	for i, b := range binds {
		name := bindPrefix + strconv.Itoa(i)
		v.Stages = append(v.Stages, Stage{Source: b.Source, Name: name, Inode: b.Inode})
		t.dir(b.Target)
		t.ops = append(t.ops, Op{Kind: Overlay, Target: New + b.Target, Source: name + ":" + emptyStage})
	}
}

// CheckDir says what is wrong with a directory as root; nil means nothing. dir
// may be a path that leads to an open directory (/proc/self/fd/N).
// Symbolic links at the places where a sandbox mounts are refused although the
// skeleton would hide them: such a tree is broken or hostile
// (CVE-2019-19921, CVE-2025-31133, CVE-2026-41579).
func CheckDir(dir string) []string {
	fi, err := os.Stat(dir)
	if err != nil {
		return []string{"it cannot be read: " + cause(err)}
	}
	if !fi.IsDir() {
		return []string{"it is not a directory"}
	}
	var bad []string
	for _, p := range []string{"proc", "dev", "dev/null", "dev/pts", "dev/shm", "dev/ptmx", "etc", "sys", "tmp", "workspace", "home", "run", "var"} {
		fi, err := os.Lstat(path.Join(dir, p))
		if err != nil || fi.Mode()&os.ModeSymlink == 0 {
			continue
		}
		to, _ := os.Readlink(path.Join(dir, p))
		if p == "dev/ptmx" && to == "pts/ptmx" {
			continue
		}
		bad = append(bad, fmt.Sprintf("%s in it is a symbolic link to %q", strconv.Quote("/"+p), to))
	}
	return bad
}

func cause(err error) string {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// DefaultPath is PATH inside.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
