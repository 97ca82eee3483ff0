package peers

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// bundle makes what OCI run-times want: a tree, and a description of the
// container that runs the program.
func bundle(g Ground, key string, program []string) error {
	if err := tree(g, key, program); err != nil {
		return err
	}
	b, err := json.MarshalIndent(describe(g, program), "", "  ")
	if err != nil {
		return err
	}
	dir := g.bundle(key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600)
}

// describe is the container: all namespaces, the caller as its root without
// capabilities, the view read-only, fresh /proc, /dev, /tmp and /workspace.
func describe(g Ground, program []string) specs.Spec {
	s := specs.Spec{
		Version:  "1.0.2", // what the oldest of them understands
		Hostname: "sandbox",
		Root:     &specs.Root{Path: g.tree(), Readonly: true},
		Process: &specs.Process{
			Args: program, Env: []string{"PATH=" + Path}, Cwd: workdir,
			NoNewPrivileges: true, Capabilities: &specs.LinuxCapabilities{},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Destination: workdir, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev"}},
		},
		Linux: &specs.Linux{
			UIDMappings:   []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(g.UID), Size: 1}},
			GIDMappings:   []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(g.GID), Size: 1}},
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	for _, kind := range []specs.LinuxNamespaceType{specs.UserNamespace, specs.MountNamespace, specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: kind})
	}
	for _, name := range g.View.Show {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: name, Type: "bind", Source: name, Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	return s
}
