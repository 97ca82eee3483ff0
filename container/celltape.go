package container

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/rootfs"
)

// cellCapabilities are what the keeper has in its own user namespace, where it
// mounts; a sandbox gives them up before its first program.
var cellCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_KILL,
	unix.CAP_NET_ADMIN, unix.CAP_SETFCAP, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_SETUID,
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_RESOURCE,
}

// order is a tape for the keeper with the descriptors that it comes with.
type order struct {
	tape keeper.Tape
	fds  []int
}

// maxTrees is how many stages one tape mounts; a message carries 16 descriptors.
const maxTrees = 12

// cellOrders are what builds the cell's root from the view. The keeper begins
// in the host's file tree; dir is a directory of it that is covered meanwhile.
// trees are the stages as detached mounts; nil if the keeper can reach them by
// their paths.
func cellOrders(v rootfs.View, dir string, trees []*os.File) ([]order, error) {
	var orders []order
	for i := 0; i < len(v.Stages); i += maxTrees {
		stages := v.Stages[i:min(i+maxTrees, len(v.Stages))]
		var o order
		for _, t := range trees[min(i, len(trees)):min(i+len(stages), len(trees))] {
			o.fds = append(o.fds, int(t.Fd()))
		}
		b := keeper.NewBuilder(len(o.fds))
		if i == 0 {
			b.Grow(tapeRoom(v))
			beginCell(b, v, dir)
		}
		for j, stage := range stages {
			showStage(b, stage, keeper.Reg(j), len(o.fds) > 0)
		}
		if i+len(stages) == len(v.Stages) {
			finishCell(b, v)
		}
		var err error
		if o.tape, err = b.Encode(keeper.MsgTape, 0); err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	return orders, nil
}

// tapeRoom is about what the tape of a view takes: operations, and bytes of data.
func tapeRoom(v rootfs.View) (ops, bytes int) {
	ops, bytes = 100, 8<<10
	for _, o := range v.Ops {
		ops += 2
		bytes += len(o.Source) + len(o.Target) + len(o.Content) + 32
	}
	return ops, bytes
}

func beginCell(b *keeper.Builder, v rootfs.View, dir string) {
	// 1. no more rights than a cell's work needs, and nothing of the caller's
	b.Call("set no_new_privs", unix.SYS_PRCTL, keeper.Int(unix.PR_SET_NO_NEW_PRIVS), keeper.Int(1), null, null, null)
	keepCapabilities(b, cellCapabilities)
	b.CallUnless("make a session keyring", unix.ENOSYS, unix.SYS_KEYCTL, keeper.Int(unix.KEYCTL_JOIN_SESSION_KEYRING), null)
	b.Call("set umask", unix.SYS_UMASK, keeper.Int(0))
	// descriptors on their way count per user, against the limit of who sends:
	// ours is to be above that of any program
	if hard := hardFiles(); hard > 0 {
		setRlimit(b, plan.Rlimit{Name: "open files", Resource: unix.RLIMIT_NOFILE, Soft: hard, Hard: hard})
	}
	b.Call("set host name", unix.SYS_SETHOSTNAME, keeper.Str("cell"), keeper.Int(len("cell")))
	// 2. an empty directory over dir: paths begin in it until step 6
	b.Call("part with the host's mounts", unix.SYS_MOUNT, noneFS, rootDir, null, keeper.Word(unix.MS_REC|unix.MS_PRIVATE), null)
	mount(b, "mount tmpfs on "+dir, "tmpfs", dir, "tmpfs", noDev, "size=1m,nr_inodes=4096,mode=0755")
	b.Call("enter "+dir, unix.SYS_CHDIR, keeper.Str(dir))
	for _, d := range rootfs.Directories(v.Stages) {
		mkdir(b, d, 0o755)
	}
}

// showStage is step 3: what was mounted is what was judged; a path may have
// been exchanged.
func showStage(b *keeper.Builder, stage rootfs.Stage, tree keeper.Reg, haveTree bool) {
	if haveTree {
		b.Call("show "+strconv.Quote(stage.Source)+" as "+stage.Name, unix.SYS_MOVE_MOUNT, keeper.R(tree), keeper.Str(""), atCwd, keeper.Str(stage.Name), keeper.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
	} else {
		bind(b, stage.Source, stage.Name)
	}
	if stage.Inode == (rootfs.Inode{}) {
		return
	}
	buf := keeper.Data(make([]byte, 256)) // struct stat; st_dev and st_ino come first
	b.Call("look at "+strconv.Quote(stage.Source), unix.SYS_NEWFSTATAT, atCwd, keeper.Str(stage.Name), buf, null)
	b.Equal("check that "+strconv.Quote(stage.Source)+" is still the directory that the policy was checked with", buf, keeper.Data(words(stage.Inode.Dev, stage.Inode.Ino)), 16)
}

func finishCell(b *keeper.Builder, v rootfs.View) {
	// 4. the view's own operations
	for _, o := range v.Ops {
		viewOp(b, o)
	}
	// 5. a fresh proc while the host's is still in sight: the kernel allows a
	// new one only beside a fully visible old one
	mount(b, "mount proc for the keeper", "proc", rootfs.New+"/proc", "proc", noDev|unix.MS_NOEXEC, "")
	// 6. exchange the root and let go of the host's tree with all stages
	b.Call("enter the new root", unix.SYS_CHDIR, keeper.Str(rootfs.New))
	b.Call("exchange the root", unix.SYS_PIVOT_ROOT, keeper.Str("."), keeper.Str("."))
	b.Call("let go of the old root", unix.SYS_UMOUNT2, keeper.Str("."), keeper.Int(unix.MNT_DETACH))
	b.Call("enter the root", unix.SYS_CHDIR, rootDir)
}

func viewOp(b *keeper.Builder, o rootfs.Op) {
	switch o.Kind {
	case rootfs.Dir:
		mkdir(b, o.Target, o.Mode)
	case rootfs.Link:
		b.Call("link "+o.Target, unix.SYS_SYMLINKAT, keeper.Str(o.Source), atCwd, keeper.Str(o.Target))
	case rootfs.File:
		b.MakeFile(o.Target, o.Content, o.Mode)
	case rootfs.Bind:
		bind(b, o.Source, o.Target)
	case rootfs.Tmpfs:
		b.CallUnless("make directory "+o.Target, unix.EEXIST, unix.SYS_MKDIRAT, atCwd, keeper.Str(o.Target), keeper.Int(0o755))
		mount(b, "mount tmpfs on "+o.Target, "tmpfs", o.Target, "tmpfs", noDev, fmt.Sprintf("size=%d,nr_inodes=8192,mode=0755", o.Size))
	case rootfs.Overlay:
		mount(b, "mount overlay on "+o.Target, "overlay", o.Target, "overlay", noDev|unix.MS_RDONLY, "lowerdir="+o.Source)
	case rootfs.Seal:
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
		b.Call("make "+o.Target+" read-only", unix.SYS_MOUNT_SETATTR, atCwd, keeper.Str(o.Target), keeper.Int(unix.AT_RECURSIVE), keeper.Data(words(attr.Attr_set, attr.Attr_clr, attr.Propagation, attr.Userns_fd)), keeper.Int(32))
	}
}
