/* A39 B19: overwriting the own image, init's and the interpreter's; source: CVE-2019-5736, CDK runc-pwn */
#include "escape.h"

int main(int argc, char **argv)
{
	TRYAS("own image, for writing", open("/proc/self/exe", O_WRONLY));
	TRYAS("own image by its path, for writing", open(argv[0], O_WRONLY));
	TRYAS("init's image, for reading", open("/proc/1/exe", O_RDONLY));
	TRYAS("init's image, for writing", open("/proc/1/exe", O_WRONLY | O_TRUNC));
	TRYAS("the C library, for writing", open("/lib64/ld-linux-x86-64.so.2", O_WRONLY));
	TRYAS("the shell, for writing", open("/bin/sh", O_WRONLY | O_TRUNC));
	/* the parent's image: init's or a program's of this sandbox */
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/exe", getppid());
	TRYAS("the parent's image, for writing", open(path, O_WRONLY | O_TRUNC));
	/* through a descriptor held over the exec, as the exploit does */
	int fd = open("/proc/self/exe", O_PATH);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	TRYAS("own image through a held descriptor", open(path, O_WRONLY | O_TRUNC));
	(void)argc;
	return 0;
}
