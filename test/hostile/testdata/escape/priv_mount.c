/* B16 A50: mounts by the old and the new calls, another root; source: runc mask.bats, CDK mount-* */
#include "escape.h"
#include <sys/mount.h>
#include <sys/syscall.h>

#define CALL(nr, ...) syscall(nr, __VA_ARGS__)

int main(void)
{
	TRYAS("mount proc", mount("proc", "/tmp", "proc", 0, 0));
	TRYAS("mount sysfs", mount("sysfs", "/tmp", "sysfs", 0, 0));
	TRYAS("mount tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0, 0));
	TRYAS("mount cgroup", mount("cgroup", "/tmp", "cgroup", 0, "memory"));
	TRYAS("mount cgroup2", mount("none", "/tmp", "cgroup2", 0, 0));
	TRYAS("mount overlay", mount("overlay", "/tmp", "overlay", 0, "lowerdir=/:/usr"));
	TRYAS("mount debugfs", mount("debugfs", "/tmp", "debugfs", 0, 0));
	TRYAS("bind", mount("/usr", "/tmp", 0, MS_BIND, 0));
	TRYAS("remount the root writable", mount(0, "/", 0, MS_REMOUNT | MS_BIND, 0));
	TRYAS("make the root shared", mount(0, "/", 0, MS_SHARED | MS_REC, 0));
	TRYAS("move /proc", mount("/proc", "/tmp", 0, MS_MOVE, 0));
	TRYAS("umount /proc", umount2("/proc", MNT_DETACH));
	TRYAS("umount a mask", umount2("/proc/kallsyms", MNT_DETACH));
	TRYAS("umount the workspace", umount2("/workspace", MNT_DETACH));
	TRYAS("pivot_root", syscall(SYS_pivot_root, ".", "."));
	TRYAS("chroot", chroot("/tmp"));
	TRYAS("open_tree", CALL(428, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */));
	TRYAS("move_mount", CALL(429, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0));
	TRYAS("fsopen", CALL(430, "tmpfs", 0));
	TRYAS("fsconfig", CALL(431, -1, 6, 0, 0, 0));
	TRYAS("fsmount", CALL(432, -1, 0, 0));
	TRYAS("fspick", CALL(433, AT_FDCWD, "/", 0));
	TRYAS("mount_setattr", CALL(442, AT_FDCWD, "/", 0, "", 32));
	TRYAS("statmount", CALL(457, 0, 0, 0, 0));
	TRYAS("listmount", CALL(458, 0, 0, 0, 0));
	TRYAS("open_tree_attr", CALL(467, AT_FDCWD, "/", 1, 0, 0));
	TRYAS("listns", CALL(470, 0, 0, 0, 0));
	TRYAS("swapon", syscall(SYS_swapon, "/workspace/x", 0));
	TRYAS("quotactl", syscall(SYS_quotactl, 0, 0, 0, 0));
	return 0;
}
