package policy

import (
	"fmt"
	"path"
	"strings"
)

// danger is a host path that gives the host away when it is shown inside,
// also read-only: a socket can be connected to, a key can be read.
type danger struct {
	path  string
	reach reach
	why   string
}

// reach says which paths a danger stands for besides its own and those above
// it: who shows a directory shows all that is in it.
type reach int

const (
	// itself is the directory as a whole; a path beneath it may be shown.
	itself reach = iota
	// below is every path beneath it too.
	below
)

// dangers are the paths that mean the same on every host. The first match
// gives the reason, so the precise ones stand before the wide ones.
var dangers = []danger{
	{"/proc", below, "it shows and controls the host's processes"},
	{"/sys", below, "it shows and controls the host's devices and cgroups"},
	{"/dev", below, "it holds the host's devices"},
	{"/boot", below, "it holds the host's kernel and boot secrets"},
	{"/run", below, "it holds the sockets and secrets of the host's daemons"},
	{"/var/run", below, "it holds the sockets and secrets of the host's daemons"},
	{"/tmp/.X11-unix", below, "it holds the sockets of the host's screen"},
	{"/tmp/.ICE-unix", below, "it holds the sockets of the host's session"},
	{"/nix/var/nix/daemon-socket", below, "it holds the socket of a daemon"},
	{"/var/lib/docker", below, "it holds the files of all containers"},
	{"/var/lib/containerd", below, "it holds the files of all containers"},
	{"/var/lib/containers", below, "it holds the files of all containers"},
	{"/var/lib/kubelet", below, "it holds the secrets of all pods"},
	{"/var/lib/rancher", below, "it holds the secrets of a cluster"},
	{"/var/lib/lxd", below, "it holds the socket and files of all containers"},
	{"/var/snap/lxd", below, "it holds the socket and files of all containers"},
	{"/etc/shadow", below, "it holds the host's password hashes"},
	{"/etc/gshadow", below, "it holds the host's password hashes"},
	{"/etc/ssh", below, "it holds the host's keys"},
	{"/etc/ssl/private", below, "it holds the host's keys"},
	{"/etc/sudoers", below, "it says who may become root"},
	{"/etc/sudoers.d", below, "it says who may become root"},
	{"/etc/kubernetes", below, "it holds the keys of a cluster"},
	{"/etc/krb5.keytab", below, "it holds the host's keys"},
	{"/etc/wireguard", below, "it holds the host's keys"},
	{"/etc/NetworkManager", below, "it holds the host's network passwords"},
	{"/etc", itself, "it holds the host's accounts and configuration"},
	{"/home", itself, "it holds the home directories"},
	{"/root", itself, "it is the home directory of root"},
	{"/tmp", itself, "it holds other programs' files and sockets"},
}

// homeSecrets are the paths below a home directory that hold keys, tokens,
// passwords or browser sessions.
var homeSecrets = []string{
	".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".git-credentials",
	".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".vault-token", ".password-store", ".terraform.d",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".config/gcloud", ".config/gh", ".config/git", ".config/containers", ".config/op", ".config/rclone",
	".config/google-chrome", ".config/chromium", ".mozilla",
	".local/share/keyrings", ".local/share/containers", ".local/state/isolate",
	".bash_history", ".zsh_history", ".claude", ".codex",
}

// daemonSockets are names of sockets that do not say so by their ending.
var daemonSockets = []string{"system_bus_socket", "libvirt-sock", "libvirt-sock-ro", "daemon-socket"}

// Dangerous says whether showing a host path inside gives the host away, and
// why: "it holds …". The path is one, is beneath one, or holds one of: the
// sockets of daemons, the user's runtime directory and key agent, isolate's
// own state, secrets in home directories, and the host's own directories such
// as /, /home, /proc, /dev, /run and /etc. It looks at no file: give it a path
// once as written and once with its symbolic links resolved. A path that is
// not absolute is dangerous, because nobody knows what it is.
func Dangerous(hostPath string, s Surroundings) (why string, bad bool) {
	if !path.IsAbs(hostPath) {
		return "it is not absolute", true
	}
	p := path.Clean(hostPath)
	if p == "/" {
		return "it is the whole host", true
	}
	if isSocketName(path.Base(p)) {
		return "it has the name of a socket, and a daemon can be reached through it", true
	}
	for _, list := range [][]danger{userDangers(s), dangers, homeDangers(s.Home, p)} {
		for _, d := range list {
			if why, bad := d.match(p); bad {
				return why, true
			}
		}
	}
	return "", false
}

// match tells whether a clean path shows the danger.
func (d danger) match(p string) (why string, bad bool) {
	switch {
	case p == d.path:
		return d.why, true
	case beneath(p, d.path) && d.reach == below:
		return fmt.Sprintf("it is in %s: %s", quote(d.path), d.why), true
	case beneath(d.path, p):
		return fmt.Sprintf("it contains %s: %s", quote(d.path), d.why), true
	}
	return "", false
}

// userDangers are the paths that this user's session has.
func userDangers(s Surroundings) []danger {
	var list []danger
	for _, d := range []danger{
		{s.RuntimeDir, below, "it holds the sockets of the user's daemons"},
		{s.SSHAuthSock, below, "it is the socket of the user's key agent"},
		{s.StateDir, below, "it holds the sockets and logs of isolate itself"},
	} {
		// A variable that is unset, relative or "/" names no place of its own.
		if d.path = path.Clean(d.path); path.IsAbs(d.path) && d.path != "/" {
			list = append(list, d)
		}
	}
	return list
}

// homeDangers are the homes that a path can have to do with: the user's own,
// root's, and whichever of /home it is in.
func homeDangers(own, p string) []danger {
	homes := []string{"/root"}
	if own = path.Clean(own); path.IsAbs(own) && own != "/" {
		homes = append(homes, own)
	}
	if rest, ok := strings.CutPrefix(p, "/home/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		homes = append(homes, "/home/"+name)
	}
	var list []danger
	for _, home := range homes {
		list = append(list, danger{home, itself, "it is a whole home directory"})
		for _, secret := range homeSecrets {
			list = append(list, danger{path.Join(home, secret), below, "it holds a user's keys, passwords or history"})
		}
	}
	return list
}

func isSocketName(base string) bool {
	for _, name := range daemonSockets {
		if base == name {
			return true
		}
	}
	return strings.HasSuffix(base, ".sock") || strings.HasSuffix(base, ".socket")
}

// beneath tells whether p is in dir, at any depth. Both are clean.
func beneath(p, dir string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") && p != dir
}
