/* B19 B33: writing through /proc/self/mem into a mapped read-only file; source: Dirty COW, CVE-2016-5195 */
#include "escape.h"

int main(void)
{
	char before[64], after[64];
	int file = open("/usr/bin/env", O_RDONLY), mem = open("/proc/self/mem", O_RDWR);
	char *map = mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
	char *shared = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
	if (file < 0 || pread(file, before, 64, 0) != 64 || map == MAP_FAILED || shared == MAP_FAILED)
		return 2;
	/* a private copy is the program's own business */
	TRYAS("into a private mapping", pwrite(mem, "evil", 4, (off_t)(uintptr_t)map));
	TRYAS("into a shared mapping", pwrite(mem, "evil", 4, (off_t)(uintptr_t)shared));
	TRYAS("a shared mapping made writable", mprotect(shared, 4096, PROT_READ | PROT_WRITE));
	TRYAS("a shared writable mapping", mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED ? -1 : 0);
	/* a race of madvise and writes, as the exploit does */
	for (int i = 0; i < 2000; i++) {
		if (pwrite(mem, "evil", 4, (off_t)(uintptr_t)map) < 0)
			break;
		madvise(map, 4096, MADV_DONTNEED);
	}
	pread(file, after, 64, 0);
	printf("the file: %s\n", memcmp(before, after, 64) ? "CHANGED" : "unchanged");
	return 0;
}
