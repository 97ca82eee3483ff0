// Package peers knows other programs that start a program away from the host:
// how each is called so that it does about what isolate does, with a similar
// view of the host's files.
//
// It starts none of them, installs none and judges none: a peer that does not
// work here says so itself when it is called. What a program in it sees is told
// by Probe. The packages that need a file tree or a description get them below
// a directory of the caller's. It needs no kernel by itself.
package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Peer is one program.
type Peer struct {
	// Name is what people call it, Program the file that is looked for.
	Name, Program string
	// Is says what it does.
	Is string
	// Also are the layers that a program in it does not see, as it is called
	// here.
	Also []string
	// User says who can use it.
	User User

	// lay makes what starting a program needs below Ground.Dir; nil is nothing.
	lay func(g Ground, key string, program []string) error
	// line is the command line behind the name of the file. id is one that no
	// other run has.
	line func(g Ground, key string, program []string, id string) []string
}

// User says who can use a peer.
type User int

// The users.
const (
	AnyUser User = iota
	RootOnly
)

// Ground is where peers are used: the caller's directory and the host's.
type Ground struct {
	// Dir is an empty directory of the caller's, an absolute path.
	Dir string
	// UID and GID are the caller's.
	UID, GID int
	// View is what of the host's files peers show.
	View View
}

// Launch is the command line that starts a program for the n-th time, n being
// used once for all programs in a Ground.
type Launch func(n int64) []string

// Prepare makes what a peer needs to start a program and says how it is
// started. file is the peer's own, as Find gives it; key names the program below
// Ground.Dir.
func (p Peer) Prepare(g Ground, file, key string, program []string) (Launch, error) {
	if p.lay != nil {
		if err := p.lay(g, key, program); err != nil {
			return nil, fmt.Errorf("cannot prepare %s: %w", p.Name, err)
		}
	}
	return func(n int64) []string {
		id := "isolate-bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(n, 10)
		return append([]string{file}, p.line(g, key, program, id)...)
	}, nil
}

// sbin are directories that an ordinary user's PATH may lack.
var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Find is the file of a peer; empty if it is not installed.
func (p Peer) Find() string {
	if file, err := exec.LookPath(p.Program); err == nil && filepath.IsAbs(file) {
		return file
	}
	for _, d := range sbin {
		if file, err := exec.LookPath(filepath.Join(d, p.Program)); err == nil {
			return file
		}
	}
	return ""
}

// workdir is where programs start.
const workdir = "/workspace"

// All are the peers, lightest first. None of them is told to limit anything:
// not all of them can, and not everywhere.
func All() []Peer {
	return []Peer{
		Bubblewrap(),
		{Name: "firejail", Program: "firejail", Is: "set-user-id program, no profile, an empty home", line: firejail},
		{Name: "crun", Program: "crun", Is: "OCI run-time in C", Also: []string{"masked files of /proc"}, lay: bundle,
			line: func(g Ground, key string, _ []string, id string) []string {
				return []string{"--root", g.state("crun"), "--cgroup-manager=disabled", "run", "--bundle", g.bundle(key), id}
			}},
		{Name: "runc", Program: "runc", Is: "OCI run-time in Go", Also: []string{"masked files of /proc"}, lay: bundle,
			line: func(g Ground, key string, _ []string, id string) []string {
				return []string{"--root", g.state("runc"), "run", "--bundle", g.bundle(key), id}
			}},
		{Name: "systemd-nspawn", Program: "systemd-nspawn", Is: "containers of systemd", User: RootOnly, lay: tree, line: nspawn},
		{Name: "runsc", Program: "runsc", Is: "OCI run-time of gVisor", Also: []string{"a kernel of its own in user space"}, lay: bundle, line: runsc},
		{Name: "podman", Program: "podman", Is: "containers without a daemon, no image", Also: []string{"masked files of /proc"}, lay: tree, line: podman},
	}
}

// Bubblewrap is the peer that isolate compares itself to first.
func Bubblewrap() Peer {
	return Peer{Name: "bubblewrap", Program: "bwrap", Is: "the same namespaces and a similar view of files", line: bubblewrap}
}

func bubblewrap(g Ground, _ string, program []string, _ string) []string {
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", Path}
	for _, d := range g.View.Show {
		args = append(args, "--ro-bind", d, d)
	}
	for _, l := range g.View.Links {
		args = append(args, "--symlink", l.To, "/"+l.Name)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev")
	for _, d := range []string{"/tmp", "/home", workdir} {
		args = append(args, "--tmpfs", d)
	}
	return append(append(args, "--chdir", workdir), program...)
}

func firejail(_ Ground, _ string, program []string, _ string) []string {
	return append([]string{"--quiet", "--noprofile", "--private", "--private-tmp", "--private-dev", "--net=none", "--seccomp", "--caps.drop=all", "--nonewprivs", "--"}, program...)
}

func nspawn(g Ground, _ string, program []string, _ string) []string {
	args := []string{"--quiet", "--register=no", "--keep-unit", "--as-pid2", "--pipe", "--private-network", "--no-new-privileges=yes", "--directory=" + g.tree()}
	for _, d := range g.View.Show {
		args = append(args, "--bind-ro="+d)
	}
	return append(append(args, "--tmpfs="+workdir, "--chdir="+workdir, "--"), program...)
}

func runsc(g Ground, key string, _ []string, id string) []string {
	args := []string{"--root", g.state("runsc"), "--network=none", "--ignore-cgroups"}
	if g.UID != 0 {
		args = append(args, "--rootless")
	}
	return append(args, "run", "--bundle", g.bundle(key), id)
}

func podman(g Ground, _ string, program []string, id string) []string {
	args := []string{"--root", g.state("podman"), "--runroot", g.state("podman-run"), "--storage-driver=vfs", "--events-backend=none",
		"run", "--rm", "--name", id, "--cgroups=disabled", "--ulimit=host", "--network=none", "--cap-drop=all", "--security-opt=no-new-privileges", "--read-only"}
	for _, d := range g.View.Show {
		args = append(args, "--volume", d+":"+d+":ro")
	}
	return append(append(args, "--workdir", workdir, "--rootfs", g.tree()), program...)
}

func (g Ground) state(peer string) string { return filepath.Join(g.Dir, peer) }
func (g Ground) bundle(key string) string { return filepath.Join(g.Dir, "bundle-"+key) }
func (g Ground) tree() string             { return filepath.Join(g.Dir, "tree") }
