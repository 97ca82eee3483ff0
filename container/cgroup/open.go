package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Place is where this process stands in the hierarchies.
type Place struct {
	// V2 is the absolute directory of the own cgroup on the unified
	// hierarchy, "" if none is mounted; V1 those of the v1 controllers.
	V2 string
	V1 map[Controller]string
}

// Here finds the own place from mountinfo and /proc/self/cgroup.
func Here() (Place, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Place{}, fmt.Errorf("cannot find cgroup mounts: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Place{}, fmt.Errorf("cannot find own cgroup: %w", err)
	}
	return parsePlace(string(mounts), string(own)), nil
}

// Movable tells whether Open may move this process.
func (p Place) Movable() bool { return p.V2 != "" && p.V1[Memory] == "" }

func parsePlace(mountinfo, own string) Place {
	p := Place{V1: map[Controller]string{}}
	paths := map[string]string{} // controller, "" for v2 -> path
	for _, line := range strings.Split(own, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			paths[c] = f[2]
		}
	}
	for _, line := range strings.Split(mountinfo, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		root, at := f[3], f[4]
		switch g[0] {
		case "cgroup2":
			if p.V2 == "" {
				p.V2 = below(at, root, paths[""])
			}
		case "cgroup":
			dir := ""
			for _, option := range strings.Split(g[2], ",") {
				if path, ok := paths[option]; ok && dir == "" {
					dir = below(at, root, path)
				}
			}
			for _, c := range controllers {
				if optionListed(g[2], string(c)) && p.V1[c] == "" && dir != "" {
					p.V1[c] = dir
				}
			}
		}
	}
	return p
}

func optionListed(options, name string) bool {
	for _, o := range strings.Split(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// below is the directory of a cgroup path under a mount that shows root.
func below(at, root, path string) string {
	if path == "" {
		return ""
	}
	if root != "/" {
		rest, inside := strings.CutPrefix(path, root)
		if !inside || rest != "" && rest[0] != '/' {
			return "" // our cgroup is not below what is mounted here
		}
		path = rest
	}
	if strings.HasPrefix(path, "/..") {
		return "" // outside of our cgroup namespace
	}
	return filepath.Join(at, path)
}

// Open makes a tree named name at this place, using each controller that
// can be used. uid is the kernel user that clones into leaves on v2. A tree
// without controllers is not an error: Has tells.
func (p Place) Open(ctx context.Context, name string, uid int) *Tree {
	t := &Tree{uid: uid, v1: map[Controller]string{}, have: map[Controller]bool{}}
	for _, c := range controllers {
		own := p.V1[c]
		if own == "" {
			continue
		}
		// whether leaves can be made is seen by making the first
		tree := filepath.Join(own, name)
		if _, ok := t.make(leafV1(tree, leafName(1))); ok {
			t.v1[c] = tree
			t.have[c] = true
		}
	}
	if p.V2 != "" && !t.have[Memory] {
		t.openV2(ctx, p.V2, name)
	}
	return t
}

// make makes a directory unless it was made for another controller.
func (t *Tree) make(dir string) (string, bool) {
	if slices.Contains(t.made, dir) {
		return dir, true
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", false
	}
	t.made = append(t.made, dir)
	return dir, true
}

// openV2 finds a directory on the unified hierarchy whose children can have
// limits: a cgroup that holds processes cannot give controllers to children.
// Under systemd that is a delegated unit. Elsewhere it is beside our
// own cgroup, or below it after we have moved into a child ourselves.
func (t *Tree) openV2(ctx context.Context, own, name string) {
	if unix.Access("/run/systemd/system", unix.F_OK) == nil {
		if t.viaSystemd(ctx, name) || os.Geteuid() != 0 {
			return // what systemd has not delegated is its own, writable or not
		}
	}
	if !t.beside(own, name) && own != unifiedRoot {
		t.below(own, name, comeBack)
	}
}

// unifiedRoot is the top of the unified hierarchy, where processes may stay.
const unifiedRoot = "/sys/fs/cgroup"

// beside makes the tree in the parent of our cgroup, if that is ours with
// controllers for its children.
func (t *Tree) beside(own, name string) bool {
	parent := filepath.Dir(own)
	if own == unifiedRoot {
		parent = own
	}
	if unix.Access(filepath.Join(parent, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	return t.useV2(filepath.Join(parent, name))
}

// afterwards says whether we go back to where we stood when the tree closes.
type afterwards int

const (
	// comeBack: the cgroup was ours before.
	comeBack afterwards = iota
	// stay: it was made for us, and goes with us.
	stay
)

// below makes the tree in a cgroup of ours. We are moved into a child of it; if
// other processes are there, the kernel refuses and so do we.
func (t *Tree) below(own, name string, then afterwards) bool {
	if unix.Access(filepath.Join(own, "cgroup.procs"), unix.W_OK) != nil {
		return false
	}
	self, ok := t.make(filepath.Join(own, name+"-supervisor"))
	if !ok {
		return false
	}
	pid := fmt.Sprint(os.Getpid())
	was, err := unifiedCgroup(os.Getpid()) // own, or where another tree of this process has put us
	if err != nil || write(self, "cgroup.procs", pid) != nil {
		t.unmake(self)
		return false
	}
	back := func() {
		_ = disable(own)
		// what we started meanwhile was born beside us, and comes along
		there, _ := read(self, "cgroup.procs")
		for _, p := range strings.Fields(there) {
			if write(was, "cgroup.procs", p) != nil {
				_ = write(own, "cgroup.procs", p)
			}
		}
	}
	if enable(own) && t.useV2(filepath.Join(own, name)) {
		if then == comeBack {
			t.stop = back // we cannot remove the cgroup we stand in
		} else {
			t.forget(self)
		}
		return true
	}
	back()
	t.unmake(self)
	return false
}

// unmake removes a directory that was made for nothing.
func (t *Tree) unmake(dir string) {
	_ = unix.Rmdir(dir)
	t.forget(dir)
}

// forget leaves a directory to whoever else removes it.
func (t *Tree) forget(dir string) {
	t.made = slices.DeleteFunc(t.made, func(d string) bool { return d == dir })
}

// useV2 makes dir and turns the controllers on for its children.
func (t *Tree) useV2(dir string) bool {
	if _, ok := t.make(dir); !ok {
		return false
	}
	if !enable(dir) {
		t.unmake(dir)
		return false
	}
	if _, ok := t.make(filepath.Join(dir, keepers)); !ok {
		t.unmake(dir)
		return false
	}
	t.v2 = dir
	_ = t.open(dir)
	for _, c := range controllers {
		if t.v1[c] == "" {
			t.have[c] = true
		}
	}
	return true
}

// open lets the user who clones move processes into and within dir.
func (t *Tree) open(dir string) error {
	if t.uid == os.Geteuid() {
		return nil
	}
	return os.Chown(filepath.Join(dir, "cgroup.procs"), t.uid, -1)
}

// enable gives memory, pids and cpu to the children of dir. All three or
// nothing: systems that delegate one delegate all, and half a limit is none.
func enable(dir string) bool {
	return write(dir, "cgroup.subtree_control", "+memory +pids +cpu") == nil
}

func disable(dir string) error {
	return write(dir, "cgroup.subtree_control", "-memory -pids -cpu")
}

// Candidates lists where Open could make a tree of that name, for a later
// process to give to RemoveAll if this one dies.
func (p Place) Candidates(name string) []string {
	var out []string
	for _, c := range controllers {
		if own := p.V1[c]; own != "" && !slices.Contains(out, filepath.Join(own, name)) {
			out = append(out, filepath.Join(own, name))
		}
	}
	// The unit that systemd has delegated is our cgroup or one above it: whoever
	// started us may stand in a child of it, and we with them.
	for dir := p.V2; dir != ""; dir = filepath.Dir(dir) {
		out = append(out, filepath.Join(dir, name), filepath.Join(dir, name+"-supervisor"))
		if dir == unifiedRoot || dir == "/" {
			break
		}
	}
	return out
}

// RemoveAll removes trees that a dead process made, leaves first: what is in
// each directory, and what stands beside it under its name. Directories whose
// last element does not begin with name are left alone: the list may have been
// damaged.
func RemoveAll(dirs []string, name string) error {
	var errs []error
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), name) || len(name) < 8 {
			continue
		}
		inside, _ := os.ReadDir(dir)
		for _, l := range inside {
			if l.IsDir() {
				errs = append(errs, removeDir(filepath.Join(dir, l.Name()), time.Now().Add(2*time.Second)))
			}
		}
		errs = append(errs, removeDir(dir, time.Now().Add(2*time.Second)))
		beside, _ := os.ReadDir(filepath.Dir(dir))
		for _, l := range beside {
			if l.IsDir() && strings.HasPrefix(l.Name(), leafV1(filepath.Base(dir), "")) {
				errs = append(errs, removeDir(filepath.Join(filepath.Dir(dir), l.Name()), time.Now().Add(2*time.Second)))
			}
		}
	}
	return errors.Join(errs...)
}

// keepers is the name of the group on v2 that cells' keepers are born into: who
// clones into a leaf must stand in the tree, and no process may stand in a
// group that gives controllers.
const keepers = "keepers"

// Keepers opens the group that keepers are born into. It is nil on v1, where
// they stay in ours: they need no limits, being a few KiB of our own code.
func (t *Tree) Keepers() (*os.File, error) {
	if t == nil || t.v2 == "" {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(t.v2, keepers), unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the keepers' cgroup: %w", err)
	}
	return f, nil
}
