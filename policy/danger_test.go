package policy

import (
	"strings"
	"testing"
)

var alice = Surroundings{
	RuntimeDir: "/srv/run/alice", Home: "/data/people/alice", SSHAuthSock: "/tmp/ssh-x/agent.7", StateDir: "/var/lib/isolate",
}

func TestDangerous(t *testing.T) {
	for path, why := range map[string]string{
		"/":                               "the whole host",
		"//":                              "the whole host",
		"":                                "not absolute",
		"home":                            "not absolute",
		"/home":                           "the home directories",
		"/home/":                          "the home directories",
		"/home/../home":                   "the home directories",
		"/root":                           "home directory of root",
		"/proc":                           "processes",
		"/proc/1/root/srv":                `in "/proc"`,
		"/sys/fs/cgroup":                  `in "/sys"`,
		"/dev/null":                       `in "/dev"`,
		"/boot":                           "boot",
		"/run":                            "daemons",
		"/run/user/1000/bus":              `in "/run"`,
		"/var/run":                        "daemons",
		"/var/run/secrets":                `in "/var/run"`,
		"/var":                            `contains "/var/lib/isolate"`,
		"/etc":                            `contains "/etc/shadow"`,
		"/etc/shadow":                     "password hashes",
		"/etc/ssh/ssh_host_rsa_key":       "keys",
		"/etc/ssl":                        `contains "/etc/ssl/private"`,
		"/tmp":                            "",
		"/tmp/.X11-unix/X0":               "screen",
		"/var/lib/docker/overlay2/x":      "containers",
		"/var/lib":                        "contains",
		"/srv/docker.sock":                "socket",
		"/srv/containerd/containerd.sock": "socket",
		"/srv/podman/podman.sock":         "socket",
		"/srv/a.socket":                   "socket",
		"/srv/dbus/system_bus_socket":     "socket",
		"/home/bob":                       "whole home",
		"/home/bob/.ssh":                  "keys",
		"/home/bob/.ssh/id_ed25519":       `in "/home/bob/.ssh"`,
		"/home/bob/.config":               `contains "/home/bob/.config/gcloud"`,
		"/home/bob/.netrc":                "keys",
		"/root/.aws/credentials":          "keys",
		"/data/people/alice":              "whole home",
		"/data/people":                    `contains "/data/people/alice"`,
		"/data":                           `contains "/data/people/alice"`,
		"/data/people/alice/.gnupg":       "keys",
		"/data/people/alice/.aws/x/y":     "keys",
		"/srv/run/alice":                  "user's daemons",
		"/srv/run/alice/anything":         `in "/srv/run/alice"`,
		"/srv/run":                        `contains "/srv/run/alice"`,
		"/srv":                            `contains "/srv/run/alice"`,
		"/tmp/ssh-x/agent.7":              "key agent",
		"/tmp/ssh-x":                      "key agent",
		"/var/lib/isolate/log":            "isolate itself",
	} {
		if got, bad := Dangerous(path, alice); !bad || !strings.Contains(got, why) || got == "" {
			t.Errorf("Dangerous(%q) = %q, %v; want %q in it", path, got, bad, why)
		}
	}
}

func TestNotDangerous(t *testing.T) {
	for _, path := range []string{
		"/usr", "/usr/share/dict", "/opt", "/srv/data", "/mnt", "/media/disk", "/nix/store", "/var/tmp/x", "/var/cache",
		"/tmp/build", "/tmp/ssh-x/other", "/etc/ssl/certs", "/etc/fonts", "/home/bob/project", "/root/project", "/home/bob/.config/app",
		"/home/bob/.sshx", "/homestead", "/procfs", "/device", "/running", "/data/people/alice/project", "/data/people/bob",
		"/srv/run/alice2", "/srv/run/bob", "/srv/sock", "/srv/docker.sock.d/file", "/srv/socket",
	} {
		if why, bad := Dangerous(path, alice); bad {
			t.Errorf("Dangerous(%q): %s", path, why)
		}
	}
}

// Nothing about the user is known: the fixed list still holds, and an empty
// field names nothing.
func TestDangerousWithoutSurroundings(t *testing.T) {
	for _, s := range []Surroundings{{}, {RuntimeDir: "/", Home: "/", SSHAuthSock: "relative", StateDir: "."}} {
		if why, bad := Dangerous("/srv/data", s); bad {
			t.Errorf("Dangerous with %+v: %s", s, why)
		}
		for _, path := range []string{"/", "/run/docker.sock", "/home/bob/.ssh", "/proc"} {
			if _, bad := Dangerous(path, s); !bad {
				t.Errorf("Dangerous(%q) with %+v: no", path, s)
			}
		}
	}
}

// Who shows a directory shows all that is in it: whatever lies above a
// dangerous path is dangerous.
func TestDangersReachUpwards(t *testing.T) {
	for _, d := range append(userDangers(alice), dangers...) {
		for path := d.path; ; path = path[:strings.LastIndex(path, "/")] {
			if path == "" {
				break
			}
			if _, bad := Dangerous(path, alice); !bad {
				t.Errorf("Dangerous(%q): no, but it shows %q", path, d.path)
			}
		}
	}
}
