/* A57, B38: takes memory in one way until somebody ends it; the ways that need
 * a system call Python does not offer. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GIB (1UL << 30)

static void *map(size_t n, int prot, int flags, int fd)
{
	void *p = mmap(0, n, prot, flags, fd, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void touch(char *p, size_t n, size_t step)
{
	for (size_t i = 0; i < n; i += step)
		p[i] = 1;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	if (!strcmp(way, "malloc")) {
		for (;;)
			memset(malloc(1 << 20), 1, 1 << 20);
	} else if (!strcmp(way, "shared")) {
		touch(map(GIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1), GIB, 4096);
	} else if (!strcmp(way, "mapped-file")) {
		/* a sparse file as large as the disk limit, on the workspace's tmpfs */
		int fd = open("/workspace/hog", O_RDWR | O_CREAT, 0600);
		if (fd < 0 || ftruncate(fd, 200 << 20)) {
			perror("file");
			return 1;
		}
		touch(map(200 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd), 200 << 20, 4096);
	} else if (!strcmp(way, "page-tables")) {
		/* reading maps the one page of zeros: only the tables are new,
		 * one page of them for each 2 MiB */
		size_t n = 200 * GIB;
		volatile char *p = map(n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		madvise((void *)p, n, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < n; i += 2 << 20)
			(void)p[i];
	} else {
		fprintf(stderr, "no way to hog: %s\n", way);
		return 2;
	}
	puts("not stopped");
	return 1;
}
