/* A54: making devices, and opening those that a sandbox has no need of; source: sunwalker dev, srt tests */
#include "escape.h"
#include <sys/sysmacros.h>

int main(void)
{
	TRYAS("mknod of a disk", mknod("/workspace/disk", S_IFBLK | 0600, makedev(8, 0)));
	TRYAS("mknod of memory", mknod("/workspace/mem", S_IFCHR | 0600, makedev(1, 1)));
	TRYAS("mknod of null", mknod("/workspace/null", S_IFCHR | 0600, makedev(1, 3)));
	TRYAS("mknod of a whiteout", mknod("/workspace/white", S_IFCHR | 0600, 0));
	TRYAS("mknodat of a disk", mknodat(AT_FDCWD, "/workspace/disk", S_IFBLK | 0600, makedev(8, 0)));
	TRYAS("mknod of a pipe", mknod("/workspace/pipe", S_IFIFO | 0600, 0));
	static const char *const devices[] = { "mem", "kmsg", "port", "sda", "vda", "nvme0n1", "loop-control",
		"loop0", "fuse", "kvm", "vhost-vsock", "vsock", "rtc0", "hpet", "input/event0", "dri/card0",
		"mapper/control", "uinput", "snd/timer", "mqueue", "hugepages", "net/tun", "cpu_dma_latency" };
	for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) {
		char path[64];
		snprintf(path, sizeof path, "/dev/%s", devices[i]);
		TRYAS(path, open(path, O_RDWR));
	}
	return 0;
}
