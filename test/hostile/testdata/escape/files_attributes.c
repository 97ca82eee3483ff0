/* A50 B33: extended attributes, clones of extents, flags of inodes; source: CVE-2026-64600, flatpak's block list */
#include "escape.h"
#include <sys/ioctl.h>
#include <sys/xattr.h>

int main(void)
{
	int fd = open("/workspace/own", O_RDWR | O_CREAT, 0644), src = open("/usr/bin/env", O_RDONLY);
	long flags = 0;
	char range[256] = { 0 };
	TRYAS("setxattr security.capability", setxattr("/workspace/own", "security.capability", "x", 1, 0));
	TRYAS("setxattr user.x", setxattr("/workspace/own", "user.x", "x", 1, 0));
	TRYAS("setxattr trusted.overlay.opaque", setxattr("/workspace/own", "trusted.overlay.opaque", "y", 1, 0));
	TRYAS("lsetxattr", lsetxattr("/workspace/own", "user.x", "x", 1, 0));
	TRYAS("fsetxattr", fsetxattr(fd, "user.x", "x", 1, 0));
	TRYAS("removexattr", removexattr("/workspace/own", "user.x"));
	TRYAS("FICLONE", ioctl(fd, 0x40049409, src));
	TRYAS("FICLONE with an upper half", syscall(SYS_ioctl, fd, 0x40049409 | HIGH, src));
	TRYAS("FICLONERANGE", ioctl(fd, 0x4020940d, range));
	TRYAS("FIDEDUPERANGE", ioctl(fd, 0xc0189436, range));
	TRYAS("FS_IOC_SETFLAGS", ioctl(fd, 0x40086602, &flags));
	TRYAS("FS_IOC_GETFLAGS", ioctl(fd, 0x80086601, &flags));
	TRYAS("FIFREEZE", ioctl(fd, 0xc0045877, 0));
	TRYAS("FITRIM", ioctl(fd, 0xc0185879, range));
	TRYAS("FS_IOC_ENABLE_VERITY", ioctl(src, 0x40806685, range));
	TRYAS("NS_GET_PARENT", ioctl(open("/proc/self/ns/user", O_RDONLY), 0xb702, 0));
	TRYAS("NS_GET_USERNS", ioctl(open("/proc/self/ns/net", O_RDONLY), 0xb701, 0));
	return 0;
}
