/* A58, sunwalker virtual_memory: address space is not memory. Runtimes reserve
 * far more than they use (Go, Java, sanitizers). */
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
	char *p = mmap(0, 100UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	p[50UL << 30] = 1;
	puts("reserved");
	return 0;
}
