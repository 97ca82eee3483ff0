package host

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mode says how the machine's control groups are laid out.
type Mode string

// The modes.
const (
	ModeNone    Mode = "none"    // no controller can be reached
	ModeCgroup1 Mode = "cgroup1" // every controller has a version 1 hierarchy
	ModeHybrid  Mode = "hybrid"  // version 1 controllers beside a version 2 hierarchy
	ModeCgroup2 Mode = "cgroup2" // one version 2 hierarchy
)

// Access says whether something may be written.
type Access int

// The answers. The zero value is that nobody knows.
const (
	AccessUnknown Access = iota
	AccessNo
	AccessYes
)

// Cgroups is where limits can be put: for each controller the group this
// process is in or, in version 2, the one around it if only that one can be
// used. New groups belong below it. A process that moves itself into
// one of them asks before, for afterwards its own group is another.
type Cgroups struct {
	Mode   Mode       `json:"mode"`
	Memory Controller `json:"memory"`
	PIDs   Controller `json:"pids"`
	CPU    Controller `json:"cpu"`
	// Unified is the group in the version 2 hierarchy below which new ones
	// belong: that of Memory or, in mode hybrid, where it has no controllers
	// of interest but can kill a group, the process's own.
	Unified Group `json:"unified"`
	// UserManager is the socket of the user's systemd, which can delegate a
	// group; empty if there is none. Nothing was sent to it.
	UserManager string `json:"user_manager,omitempty"`
}

// Group is a control group.
type Group struct {
	// Dir is its absolute directory; empty if it cannot be reached.
	Dir string `json:"dir,omitempty"`
	// Writable says whether groups can be made below it. DetectCgroups
	// judges by permissions; Probe has made one.
	Writable Access `json:"writable"`
	// Top says that it is the root of the version 2 hierarchy, where the
	// rule that only groups without processes hand on controllers is off.
	Top bool `json:"top,omitempty"`
}

// Controller is a controller and the group below which it can limit.
type Controller struct {
	// Name is the kernel's name: "memory", "pids", "cpu".
	Name string `json:"name"`
	// Version is that of the hierarchy, 1 or 2; 0 means that the kernel has
	// no such controller or that its hierarchy is not mounted here.
	Version int `json:"version"`
	Group
	// Around says that the group is the parent of the process's own, handed
	// over with the controller enabled, so that new groups stand beside it.
	Around bool `json:"around,omitempty"`
	// Available says that groups made below can have the controller: always
	// in version 1, in version 2 if it is in the group's cgroup.controllers.
	Available bool `json:"available"`
	// Enabled says that groups made below have it now: always in version 1,
	// in version 2 if it is in the group's cgroup.subtree_control. If it is
	// not, every process must leave the group before it can be enabled.
	Enabled bool `json:"enabled"`
	// Reason says why the controller cannot be used; empty if it can.
	Reason string `json:"reason,omitempty"`
}

// Usable says whether limits can be put on groups made below.
func (c Controller) Usable() bool {
	return c.Version != 0 && c.Available && c.Writable == AccessYes
}

// Controllers are the three of them in a fixed order: memory, pids, cpu.
func (c Cgroups) Controllers() []Controller { return []Controller{c.Memory, c.PIDs, c.CPU} }

// hierarchy is one line of /proc/self/cgroup with its mount.
type hierarchy struct {
	version     int
	controllers []string
	dir         string // empty: not mounted where this process can see it
	mountpoint  string
}

// DetectCgroups finds the control groups by reading: it makes none. It takes
// well under a millisecond.
func DetectCgroups(o Options) Cgroups {
	o = o.withDefaults()
	return o.cgroups(o.mounts())
}

func (o Options) cgroups(mounts []*mountinfo.Info) Cgroups {
	hs := o.hierarchies(mounts)
	c := Cgroups{
		Memory:      o.controller(hs, "memory"),
		PIDs:        o.controller(hs, "pids"),
		CPU:         o.controller(hs, "cpu"),
		UserManager: o.userManager(),
	}
	var v1, v2 bool
	for _, h := range hs {
		switch {
		case h.dir == "":
		case h.version == 2:
			v2 = true
			c.Unified = o.group(h, "cgroup.procs")
		case len(h.controllers) > 0:
			v1 = true
		}
	}
	if c.Memory.Around {
		c.Unified = c.Memory.Group
	}
	switch {
	case v1 && v2:
		c.Mode = ModeHybrid
	case v1:
		c.Mode = ModeCgroup1
	case v2:
		c.Mode = ModeCgroup2
	default:
		c.Mode = ModeNone
	}
	return c
}

// hierarchies reads /proc/self/cgroup and finds each line's directory.
func (o Options) hierarchies(mounts []*mountinfo.Info) []hierarchy {
	var hs []hierarchy
	for line := range strings.Lines(o.text("/proc/self/cgroup")) {
		// id:controllers:path, where the path may hold colons; see cgroups(7).
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		h := hierarchy{version: 1}
		if f[0] == "0" && f[1] == "" {
			h.version = 2
		}
		for c := range strings.SplitSeq(f[1], ",") {
			if c != "" && !strings.HasPrefix(c, "name=") {
				h.controllers = append(h.controllers, c)
			}
		}
		h.dir, h.mountpoint = cgroupDir(mounts, h, f[2])
		if h.version == 2 && h.dir != "" {
			h.controllers = strings.Fields(o.text(h.dir + "/cgroup.controllers"))
		}
		hs = append(hs, h)
	}
	return hs
}

// cgroupDir is the directory of the group own in the hierarchy, or "" if it is
// not below what is mounted.
func cgroupDir(mounts []*mountinfo.Info, h hierarchy, own string) (dir, mountpoint string) {
	for _, m := range slices.Backward(mounts) { // the last one covers the others
		if h.version == 2 {
			if m.FSType != "cgroup2" {
				continue
			}
		} else if m.FSType != "cgroup" || len(h.controllers) == 0 ||
			!slices.Contains(strings.Split(m.VFSOptions, ","), h.controllers[0]) {
			continue
		}
		// Without a cgroup namespace a container sees its group as the root
		// of the mount and the full path in /proc/self/cgroup.
		rel, ok := below(m.Root, own)
		if !ok {
			continue
		}
		return path.Join(m.Mountpoint, rel), m.Mountpoint
	}
	return "", ""
}

// below gives the rest of p after dir, and false if p is not dir or below it.
func below(dir, p string) (rel string, ok bool) {
	if strings.HasPrefix(p, "/..") {
		return "", false // outside the cgroup namespace; Clean would hide it
	}
	dir, p = path.Clean(dir), path.Clean(p)
	if dir == "/" || dir == p {
		return strings.TrimPrefix(p, dir), true
	}
	return strings.CutPrefix(p, dir+"/")
}

func (o Options) controller(hs []hierarchy, name string) Controller {
	c := Controller{Name: name}
	known := false
	for _, h := range hs {
		if !slices.Contains(h.controllers, name) {
			continue
		}
		known = true
		if h.dir == "" {
			continue
		}
		c.Version, c.Available, c.Enabled = h.version, true, true
		if h.version == 1 {
			c.Group = o.group(h)
		} else {
			c.Group = o.group(h, "cgroup.procs", "cgroup.subtree_control")
			c.Enabled = o.handsOn(h.dir, name)
			o.lookAround(h, &c)
		}
		if c.Writable != AccessYes {
			c.Reason = "cannot write to " + c.Dir
		}
		return c
	}
	c.Reason = o.whyNoController(hs, name, known)
	return c
}

// handsOn says whether a version 2 group hands a controller to those below.
func (o Options) handsOn(dir, name string) bool {
	return slices.Contains(strings.Fields(o.text(dir+"/cgroup.subtree_control")), name)
}

// lookAround takes the parent of the own group if limits can be put there at
// once and not in the own group: who hands over a folder with a child for the
// first process means it so. Root may write everywhere, which says nothing;
// and a slice is systemd's own, which delegates scopes and services only
// (systemd's CGROUP_DELEGATION), though the user's slices belong to the user.
func (o Options) lookAround(h hierarchy, c *Controller) {
	around := h
	around.dir = path.Dir(h.dir)
	if o.UID == 0 || h.dir == h.mountpoint || strings.HasSuffix(around.dir, ".slice") || c.Writable == AccessYes && c.Enabled {
		return
	}
	if g := o.group(around, "cgroup.procs"); g.Writable == AccessYes && o.handsOn(around.dir, c.Name) {
		c.Group, c.Around, c.Enabled = g, true, true
	}
}

// whyNoController says why no hierarchy within reach has the controller, and
// where version 2 would have to offer it.
func (o Options) whyNoController(hs []hierarchy, name string, known bool) string {
	if known {
		return "its hierarchy is not mounted where this process can see it"
	}
	for _, h := range hs {
		if h.version == 2 && h.dir != "" {
			return "not in " + h.dir + "/cgroup.controllers"
		}
	}
	return "not in /proc/self/cgroup"
}

// group judges by permissions whether groups can be made in h.dir and
// processes moved there.
func (o Options) group(h hierarchy, files ...string) Group {
	g := Group{Dir: h.dir, Writable: AccessYes}
	// A cgroup namespace shows its group as "/"; only the real root has no type.
	g.Top = h.version == 2 && !o.exists(h.dir+"/cgroup.type")
	for _, f := range append([]string{""}, files...) {
		if s, err := o.file(path.Join(h.dir, f)); err != nil || s.Write != 0 {
			g.Writable = AccessNo
		}
	}
	return g
}

// userManager is the socket at which the user's systemd answers.
func (o Options) userManager() string {
	dir := o.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(o.UID)
	}
	for _, s := range []string{"/systemd/private", "/bus"} {
		if o.exists(dir + s) {
			return dir + s
		}
	}
	return ""
}

// mounts is the mount table; nil if there is none to read.
func (o Options) mounts() []*mountinfo.Info {
	ms, err := mountinfo.GetMountsFromReader(strings.NewReader(o.text("/proc/self/mountinfo")), nil)
	if err != nil {
		return nil
	}
	return ms
}
