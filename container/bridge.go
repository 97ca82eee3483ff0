package container

import (
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// The file system of the tool bridge. Its root is seen by the supervisor only,
// through the handle it gets; the program sees the directory "rpc" of it.
const (
	bridgeAt = "/workspace/_rpc"
	// bridgeData bounds the tmpfs: requests, answers and the modules. It is
	// memory that no cgroup of the sandbox pays where the host writes.
	bridgeData = "size=32m,nr_inodes=16384,mode=0700"
)

// BridgeParts are the directories below Sandbox.Bridge: what the program sees
// at /workspace/_rpc, its parts, and one that only we see.
var BridgeParts = struct{ Flat, Req, Resp, SDK, Claim string }{"rpc", "rpc/req", "rpc/resp", "rpc/sdk", "claim"}

// bridgeDir mounts the bridge. It returns the register of the handle of its
// root. The mount that the handle is of gets covered by the part that the
// program sees. Each part is a mount, so that it can be neither renamed nor
// removed; what only the host writes is read-only.
func bridgeDir(b *keeper.Builder) keeper.Reg {
	mkdir(b, bridgeAt, 0o755)
	mount(b, "mount tmpfs on "+bridgeAt, "tmpfs", bridgeAt, "tmpfs", noDev, bridgeData)
	p := BridgeParts
	for _, dir := range []string{p.Claim, p.Flat, p.Req, p.Resp, p.SDK} {
		mode := uint32(0o755)
		if dir == p.Claim {
			mode = 0o700
		}
		mkdir(b, bridgeAt+"/"+dir, mode)
	}
	root := b.CallReg("open the bridge", unix.SYS_OPENAT, atCwd, keeper.Str(bridgeAt), keeper.Int(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), null)
	bind(b, bridgeAt+"/"+p.Flat, bridgeAt)
	for _, part := range []struct {
		name  string
		flags uintptr
	}{{"req", unix.MS_NOEXEC}, {"resp", unix.MS_NOEXEC | unix.MS_RDONLY}, {"sdk", unix.MS_RDONLY}} {
		at := bridgeAt + "/" + part.name
		bind(b, at, at)
		restrict(b, at, "restrict "+at, noDev|part.flags)
	}
	return root
}

// takeBridge receives the handle of the bridge's root.
func (b *Sandbox) takeBridge(tape keeper.Tape) error {
	if !b.plan.Bridge {
		return nil
	}
	r, err := answer(b.sock, "sandbox", tape)
	if err != nil {
		return err
	}
	b.Bridge = r.fd
	if b.Bridge == nil {
		return bug("no handle of the bridge came")
	}
	return nil
}
