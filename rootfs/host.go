package rootfs

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Source is where a view looks at the host. The zero value of Root is "/";
// tests point it at a tree of their own.
type Source struct{ Root string }

func (s Source) at(p string) string { return filepath.Join("/", s.Root, p) }

// etcDirs are directories of the host's /etc that programs need to find their
// own parts; none holds secrets that the user's other programs could not read
// in /usr. Patterns as in path.Match.
var etcDirs = []string{"alternatives", "fonts", "java*", "ld.so.conf.d", "perl", "python*", "ssl/certs", "pki/tls/certs", "pki/ca-trust", "ca-certificates", "terminfo", "ImageMagick-*", "R"}

// etcFiles are copied if they are small: a copy needs no mount.
var etcFiles = []string{"ld.so.cache", "ld.so.conf", "mime.types", "magic", "protocols", "services", "rpc", "locale.alias", "shells", "inputrc", "ssl/openssl.cnf", "debian_version", "gai.conf", "bindresvport.blacklist", "nanorc", "wgetrc", "sensors3.conf", "matplotlibrc"}

// maxEtcFile bounds a file of /etc in bytes; ld.so.cache, the largest, is some
// 100 KiB on a full desktop.
const maxEtcFile = 1 << 20

// maxCopied is the size in bytes up to which a file is copied; the few larger
// ones are bound, because their bytes would travel twice.
const maxCopied = 16 << 10

// topDirs are the directories beside /usr that hold programs where the
// distribution has not merged them into it.
var topDirs = []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin"}

// rootSize bounds the tmpfs of the root itself in bytes, without copied files.
const rootSize = 4 << 20

// Host is what a view shows of the host, as Look finds it. It depends on no
// policy, so it can be looked at before there is one.
type Host struct {
	source   Source
	stages   []Stage
	links    []hostLink // /bin and others that lead into /usr; files of /etc
	etcDirs  []string   // below /etc
	etcFiles []etcFile
	cpuFlags string
}

type hostLink struct{ name, to string }

// etcFile is a small file, or one that is bound because it is not.
type etcFile struct {
	name    string // below /etc
	content []byte
	bound   bool
}

// Look looks at the host. What cannot be read is not there.
func Look(s Source) *Host {
	h := &Host{source: s, stages: hostStages(s), cpuFlags: cpuFlags()}
	for _, d := range topDirs {
		// one that is a link to a part of /usr
		if to, err := os.Readlink(s.at(d)); err == nil && insideUsr(to) {
			h.links = append(h.links, hostLink{"/" + d, to})
		}
	}
	h.etc()
	return h
}

// hostStages are the stages of the host view without binds.
func hostStages(s Source) []Stage {
	names := []string{"usr"}
	for _, d := range topDirs {
		if fi, err := os.Lstat(s.at(d)); err == nil && fi.IsDir() {
			names = append(names, d)
		}
	}
	var stages []Stage
	for _, name := range append(names, "etc") {
		stages = append(stages, Stage{Source: s.at(name), Name: StageDir + "/" + name})
	}
	return append(stages, Stage{Source: s.at("dev"), Name: Dev})
}

// etc looks for the parts of the host's /etc that are shown.
func (h *Host) etc() {
	s := h.source
	for _, d := range expand(s.at("/etc"), etcDirs) {
		if fi, err := os.Lstat(s.at("/etc/" + d)); err == nil && fi.IsDir() && fi.Mode().Perm()&0o5 == 0o5 {
			h.etcDirs = append(h.etcDirs, d)
		}
	}
	sort.Strings(h.etcDirs)
	for _, name := range etcFiles {
		fi, err := os.Stat(s.at("/etc/" + name))
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxEtcFile || fi.Mode().Perm()&0o4 == 0 {
			continue
		}
		if fi.Size() > maxCopied {
			h.etcFiles = append(h.etcFiles, etcFile{name: name, bound: true})
		} else if b, err := os.ReadFile(s.at("/etc/" + name)); err == nil {
			h.etcFiles = append(h.etcFiles, etcFile{name: name, content: b})
		}
	}
	h.links = append(h.links, hostLink{"/etc/mtab", "/proc/self/mounts"})
	if to, err := os.Readlink(s.at("/etc/os-release")); err == nil && insideUsr(path.Join("/etc", to)) {
		h.links = append(h.links, hostLink{"/etc/os-release", to})
	}
	if to, err := os.Readlink(s.at("/etc/localtime")); err == nil && insideUsr(path.Join("/etc", to)) {
		// the host's zone tells where it is
		h.links = append(h.links, hostLink{"/etc/localtime", "/usr/share/zoneinfo/UTC"})
	}
}

// HostView is the host's /usr and friends, read-only, under a generated /etc:
// nothing of /home, /root, /run or /var.
func HostView(h *Host, id Identity, m Machine, files []CopiedFile, binds []BoundDir) (View, error) {
	t := newTree(New)
	size := int64(rootSize)
	for _, f := range files {
		size += int64(len(f.Content))
	}
	t.ops = append(t.ops, Op{Kind: Tmpfs, Target: New, Size: size})
	v := View{Stages: slices.Clone(h.stages)}
	for _, stage := range v.Stages {
		if dir := path.Base(stage.Name); dir != "etc" && stage.Name != Dev {
			t.bind(stage.Name, "/"+dir)
		}
	}
	identityFiles(t, id)
	h.bindEtc(t)
	for _, l := range h.links {
		t.link(l.name, l.to)
	}
	skeleton(t, id, m, h.cpuFlags)
	addBinds(t, &v, files, binds)
	t.ops = append(t.ops, Op{Kind: Seal, Target: New})
	devices(t)
	v.Ops = t.ops
	return v, nil
}

func insideUsr(link string) bool {
	return strings.HasPrefix(path.Clean("/"+link), "/usr/")
}

// bindEtc adds what is shown of the host's /etc.
func (h *Host) bindEtc(t *tree) {
	const stage = StageDir + "/etc"
	for _, d := range h.etcDirs {
		t.bind(stage+"/"+d, "/etc/"+d)
	}
	for _, f := range h.etcFiles {
		t.file("/etc/"+f.name, f.content, 0o644)
		if f.bound {
			t.ops = append(t.ops, Op{Kind: Bind, Target: t.base + "/etc/" + f.name, Source: stage + "/" + f.name})
		}
	}
}

// expand replaces patterns, which have no slash, by the names in dir that match
// one. The directory is listed once: it has some 200 names, and a start of a
// command waits for it.
func expand(dir string, list []string) []string {
	var names, patterns []string
	for _, p := range list {
		if strings.ContainsAny(p, `*?[\`) {
			patterns = append(patterns, p)
		} else {
			names = append(names, p)
		}
	}
	if len(patterns) == 0 {
		return names
	}
	f, err := os.Open(dir)
	if err != nil {
		return names
	}
	defer f.Close()
	there, _ := f.Readdirnames(-1)
	for _, name := range there {
		for _, p := range patterns {
			if hit, _ := path.Match(p, name); hit {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// skeleton adds the mount points of a sandbox and the generated /sys.
func skeleton(t *tree, id Identity, m Machine, cpuFlags string) {
	for _, d := range []string{"/proc", "/dev", "/dev/shm", "/dev/pts", "/workspace", "/tmp", id.Home, Empty, "/run", "/var", "/var/tmp", "/opt", "/mnt", "/srv", "/root"} {
		t.dir(d)
	}
	t.link("/var/run", "/run")
	if m.NodeModules != "" {
		t.link("/node_modules", m.NodeModules)
	}
	machineFiles(t, m, cpuFlags)
	t.link("/dev/fd", "/proc/self/fd")
	t.link("/dev/stdin", "/proc/self/fd/0")
	t.link("/dev/stdout", "/proc/self/fd/1")
	t.link("/dev/stderr", "/proc/self/fd/2")
	t.link("/dev/ptmx", "pts/ptmx")
	for _, d := range deviceNames {
		t.file("/dev/"+d, nil, 0o666)
	}
}

// deviceNames are the devices a program may open; the table in
// spec "recommended default policy", row /dev.
var deviceNames = []string{"null", "zero", "full", "random", "urandom", "tty"}

// devices binds the host's device files. They come after Seal: a device on a
// nodev mount cannot be opened.
func devices(t *tree) {
	for _, d := range deviceNames {
		t.ops = append(t.ops, Op{Kind: Bind, Target: New + "/dev/" + d, Source: Dev + "/" + d})
	}
}

// cpuFlags is the flags line of the first processor: what the processor can
// do is not secret (the cpuid instruction tells), and libraries choose code by it.
func cpuFlags() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f) // of all processors, and the first is enough
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == "flags" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
