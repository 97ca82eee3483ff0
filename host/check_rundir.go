package host

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// runtimeDir is where run-time state goes.
func (s *sight) runtimeDir() string {
	if d := s.o.RuntimeDir; d != "" {
		return path.Clean(d)
	}
	if d := s.o.Getenv("XDG_RUNTIME_DIR"); path.IsAbs(d) {
		return path.Join(d, "isolate")
	}
	return "/tmp/isolate-" + strconv.Itoa(s.o.UID)
}

// runtimeBase is the runtime directory or, while it does not exist, the
// nearest directory above it.
func (s *sight) runtimeBase() (dir string, f File, err error) {
	for dir = s.runtimeDir(); ; dir = path.Dir(dir) {
		if f, err = s.o.file(dir); err == nil || dir == "/" {
			return dir, f, err
		}
	}
}

func (s *sight) describeDir(dir string, f File) string {
	seen := fmt.Sprintf("%s has mode %s and owner %d", dir, octal(f.Mode), f.UID)
	if dir != s.runtimeDir() {
		seen = s.runtimeDir() + " does not exist yet; " + seen
	}
	return seen
}

func checkRundirLink(s *sight) Check {
	dir := s.runtimeDir()
	f, err := s.o.file(dir)
	switch {
	case err != nil:
		return rundirLink.ok(dir + " does not exist yet")
	case f.Mode&fs.ModeSymlink != 0:
		return s.say(&rundirLink, &rundirIsLink, Fail, dir+" is a symbolic link")
	}
	return rundirLink.ok(dir + " is not one")
}

func checkRundirOwner(s *sight) Check {
	dir, f, err := s.runtimeBase()
	seen := s.describeDir(dir, f)
	switch {
	case err != nil:
		return s.say(&rundirOwner, &rundirNoDir, Fail, err.Error())
	case dir != s.runtimeDir() && (f.Write != 0 || !f.Mode.IsDir()):
		return s.say(&rundirOwner, &rundirNoDir, Fail, seen+", and cannot be written to")
	case dir == s.runtimeDir() && !f.Mode.IsDir() && f.Mode&fs.ModeSymlink == 0:
		return s.say(&rundirOwner, &rundirNoDir, Fail, dir+" is not a directory")
	case dir == s.runtimeDir() && f.UID != s.o.UID:
		return s.say(&rundirOwner, &rundirForeign, Fail, seen)
	}
	return rundirOwner.ok(seen)
}

func checkRundirMode(s *sight) Check {
	dir, f, err := s.runtimeBase()
	seen := s.describeDir(dir, f)
	switch {
	case err != nil || dir != s.runtimeDir():
		return rundirMode.ok(s.runtimeDir() + " does not exist yet and is made with mode 0700")
	case f.Mode&fs.ModeSymlink != 0:
		return rundirMode.info("not looked at, because " + rundirLink.id + " failed")
	case f.Mode.Perm()&s.closedToOthers() != 0:
		return s.say(&rundirMode, &rundirOpen, Fail, seen)
	}
	return rundirMode.ok(seen)
}

// closedToOthers are the permission bits others must not have. Root's sandboxes
// run as another id, which has to pass through the directory to the cell's root
// inside: it may search, and neither list nor write.
func (s *sight) closedToOthers() fs.FileMode {
	if s.o.UID == 0 {
		return 0o066
	}
	return 0o077
}

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// checkRundirParent looks at what is above the runtime directory, links and
// what they lead to included: somebody who can write to such a directory can
// put another one in place of the next, unless it is sticky.
func checkRundirParent(s *sight) Check {
	loose := func(dir, why string) Check {
		return s.say(&rundirParent, &rundirLoose, Fail, dir+" "+why)
	}
	at, links := "/", 0
	todo := strings.Split(path.Dir(s.runtimeDir()), "/")
	for {
		f, err := s.o.file(at)
		if err != nil {
			break // it is made by whoever may write above it
		}
		strange := f.UID != 0 && f.UID != s.o.UID && !(f.UID == overflowUID && s.mapped())
		others := f.Mode.Perm()&0o022 != 0 && f.Mode&fs.ModeSticky == 0
		switch link := f.Mode&fs.ModeSymlink != 0; {
		case strange || others && !link:
			return loose(at, fmt.Sprintf("has mode %s and owner %d", octal(f.Mode), f.UID))
		case link:
			to, err := os.Readlink(s.o.real(at))
			if links++; err != nil || links > maxLinks {
				return loose(at, "is a symbolic link that cannot be followed")
			}
			todo = append(strings.Split(to, "/"), todo...)
			if at = path.Dir(at); path.IsAbs(to) {
				at = "/"
			}
		}
		if len(todo) == 0 {
			break
		}
		at, todo = path.Join(at, todo[0]), todo[1:]
	}
	return rundirParent.ok("every directory above " + s.runtimeDir() + " is root's or the user's, and closed to others or sticky")
}

// overflowUID is who the kernel says owns what belongs to an id that the user
// namespace does not map: in a rootless container, all that the host owns
// (/proc/sys/kernel/overflowuid, which nobody changes).
const overflowUID = 65534

// mapped tells whether we are in a user namespace that lacks ids.
func (s *sight) mapped() bool {
	m := strings.Join(strings.Fields(s.o.text("/proc/self/uid_map")), " ")
	return m != "" && m != "0 0 4294967295"
}

// octal is the mode as chmod takes it.
func octal(m fs.FileMode) string {
	n := m.Perm()
	if m&fs.ModeSticky != 0 {
		n |= 0o1000
	}
	return fmt.Sprintf("%04o", n)
}

// mountOf is the mount a path is on; nil if the mount table does not say.
func (s *sight) mountOf(p string) *mountinfo.Info {
	var best *mountinfo.Info
	for _, m := range s.mounts {
		// Of mounts on the same point the last one is seen.
		if _, ok := below(m.Mountpoint, p); ok && (best == nil || len(m.Mountpoint) >= len(best.Mountpoint)) {
			best = m
		}
	}
	return best
}

func hasOption(options, name string) bool {
	return slices.Contains(strings.Split(options, ","), name)
}

func (s *sight) mountedReadOnly(p string) bool {
	m := s.mountOf(p)
	return m != nil && (hasOption(m.Options, "ro") || hasOption(m.VFSOptions, "ro"))
}

func checkRundirMount(s *sight) Check {
	m := s.mountOf(s.runtimeDir())
	if m == nil {
		return rundirMount.info("the mount table does not say what " + s.runtimeDir() + " is on")
	}
	seen := s.runtimeDir() + " is on " + m.Mountpoint + " (" + m.Options + ")"
	// nosuid, which systemd's /run/user has, takes nothing away: no program
	// in a sandbox gains privileges anyhow.
	if hasOption(m.Options, "noexec") {
		return s.say(&rundirMount, &rundirNoexec, Warn, seen)
	}
	return rundirMount.ok(seen)
}

// remote are the types of file systems that other machines serve.
var remote = []string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "lustre", "beegfs", "gpfs"}

func checkRundirLocal(s *sight) Check {
	m := s.mountOf(s.runtimeDir())
	if m == nil {
		return rundirLocal.info("the mount table does not say what " + s.runtimeDir() + " is on")
	}
	seen := s.runtimeDir() + " is on " + m.FSType
	if slices.Contains(remote, m.FSType) {
		return s.say(&rundirLocal, &rundirRemote, Warn, seen)
	}
	return rundirLocal.ok(seen)
}

func checkRundirSpace(s *sight) Check {
	dir, f, err := s.runtimeBase()
	if err != nil {
		return rundirSpace.info("not looked at, because " + rundirOwner.id + " failed")
	}
	seen := fmt.Sprintf("%s is free in %s, %s is wanted", mebibytes(f.Free), dir, mebibytes(s.o.RuntimeSpace))
	if f.Free < s.o.RuntimeSpace {
		return s.say(&rundirSpace, &rundirFull, Fail, seen)
	}
	return rundirSpace.ok(seen)
}

// mebibytes rounds down, so that it does not promise what is not there.
func mebibytes(n uint64) string { return strconv.FormatUint(n>>20, 10) + " MiB" }

func checkRundirShared(s *sight) Check {
	m := s.mountOf(s.runtimeDir())
	if m == nil {
		return rundirShared.info("the mount table does not say what " + s.runtimeDir() + " is on")
	}
	if strings.Contains(m.Optional, "shared:") {
		return s.say(&rundirShared, &rundirPeers, Info, m.Mountpoint+" is in a peer group ("+m.Optional+")")
	}
	return rundirShared.ok(m.Mountpoint + " is in no peer group")
}
