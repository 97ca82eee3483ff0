package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// limitFile is the file of cgroup version 1 that sets a controller's limit,
// and a value that limits nothing.
var limitFile = map[string][2]string{
	"memory": {"memory.limit_in_bytes", "-1"},
	"pids":   {"pids.max", "max"},
	"cpu":    {"cpu.cfs_quota_us", "-1"},
}

func eitherCgroup(controllers ...string) error {
	err1 := cgroup1(controllers...)
	if err1 == nil {
		return nil
	}
	err2 := cgroup2(controllers...)
	if err2 == nil {
		return nil
	}
	return fmt.Errorf("version 1: %w; version 2: %w", err1, err2)
}

// cgroup1 makes a cgroup below the caller's own in each controller's hierarchy
// and sets its limit.
func cgroup1(controllers ...string) error {
	for _, c := range controllers {
		own, err := ownCgroup(c)
		if err != nil {
			return err
		}
		child, err := makeChild(own)
		if err != nil {
			return err
		}
		limit := limitFile[c]
		err = write(filepath.Join(child, limit[0]), limit[1])
		if err := errors.Join(err, os.Remove(child)); err != nil {
			return err
		}
	}
	return nil
}

// cgroup2 looks for the three places a caller may have: its own cgroup; the
// parent of it, when it stands in a leaf of a delegated folder; a scope of its
// systemd user manager.
func cgroup2(controllers ...string) error {
	own, err := ownCgroup("")
	if err != nil {
		return err
	}
	errOwn := ownGives(own, controllers)
	if errOwn == nil {
		return nil
	}
	// Root may write everywhere, so there the parent proves nothing.
	errParent := errors.New("not tried as root")
	if os.Geteuid() != 0 {
		errParent = parentGives(filepath.Dir(own), controllers)
	}
	if errParent == nil {
		return nil
	}
	errScope := scopeGives(controllers)
	if errScope == nil {
		return nil
	}
	return fmt.Errorf("own cgroup: %w; its parent: %w; a systemd scope: %w", errOwn, errParent, errScope)
}

// ownGives says whether the caller can give controllers to children of its own
// cgroup once it has moved out of it. It asks the kernel to enable each one:
// "busy" says that only the caller's presence is in the way, because the
// kernel looks at permission and availability first.
func ownGives(own string, controllers []string) error {
	child, err := makeChild(own)
	if err != nil {
		return err
	}
	defer os.Remove(child)
	control := filepath.Join(own, "cgroup.subtree_control")
	for _, c := range controllers {
		if has(control, c) {
			continue
		}
		err := write(control, "+"+c)
		if err == nil {
			err = write(control, "-"+c)
		}
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			return err
		}
	}
	return nil
}

// parentGives says whether the caller can make siblings with the controllers
// and move its processes there.
func parentGives(parent string, controllers []string) error {
	// Above the root of a hierarchy there is no such file, and no cgroup.
	procs, err := os.OpenFile(filepath.Join(parent, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	procs.Close()
	sibling, err := makeChild(parent)
	if err != nil {
		return err
	}
	defer os.Remove(sibling)
	for _, c := range controllers {
		if !has(filepath.Join(sibling, "cgroup.controllers"), c) {
			return fmt.Errorf("controller %s is not enabled in %s", c, parent)
		}
	}
	return nil
}

// scopeGives does in a delegated scope what a caller would: step into a leaf
// and enable the controllers for the children of the scope.
func scopeGives(controllers []string) error {
	if err := systemdUser(); err != nil {
		return err
	}
	mount, _, err := hierarchy("")
	if err != nil {
		return err
	}
	script := `scope=$1$(sed -n 's/^0:://p' /proc/self/cgroup) && mkdir "$scope/leaf" &&
		echo $$ > "$scope/leaf/cgroup.procs" && echo "$2" > "$scope/cgroup.subtree_control"`
	return try("systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes",
		"sh", "-c", script, "sh", mount, "+"+strings.Join(controllers, " +"))
}

// ownCgroup is the caller's directory in the hierarchy of a version 1
// controller, or in version 2's for "".
func ownCgroup(controller string) (string, error) {
	mount, mountRoot, err := hierarchy(controller)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 || !slices.Contains(strings.Split(part[1], ","), controller) {
			continue
		}
		below, err := filepath.Rel(mountRoot, part[2])
		if err != nil || strings.HasPrefix(below, "..") {
			return "", fmt.Errorf("own cgroup %s is outside of what is mounted at %s", part[2], mount)
		}
		return filepath.Join(mount, below), nil
	}
	return "", fmt.Errorf("own cgroup is in no hierarchy of %q", controller)
}

// hierarchy is where a version 1 controller, or version 2 for "", is mounted,
// and which of its directories is at the mount point.
func hierarchy(controller string) (mount, mountRoot string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) < 5 || len(tail) < 3 {
			continue
		}
		if tail[0] == "cgroup2" && controller == "" ||
			tail[0] == "cgroup" && controller != "" && slices.Contains(strings.Split(tail[2], ","), controller) {
			return head[4], head[3], nil
		}
	}
	if controller == "" {
		controller = "version 2"
	}
	return "", "", errors.Join(lines.Err(), fmt.Errorf("no cgroup file system of %s is mounted", controller))
}

// probePrefix begins the names of the cgroups this process makes.
func probePrefix() string { return fmt.Sprintf("isolate-probe-%d-", os.Getpid()) }

// makeChild makes a cgroup that the caller removes with os.Remove.
func makeChild(parent string) (string, error) {
	return os.MkdirTemp(parent, probePrefix())
}

// has says whether a file of space-separated words has one of them.
func has(path, word string) bool {
	b, _ := os.ReadFile(path)
	return slices.Contains(strings.Fields(string(b)), word)
}

// write writes to a file that the kernel must already have made.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
