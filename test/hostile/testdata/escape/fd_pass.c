/* A33 A50: descriptors that could be fetched or smuggled: pidfd_getfd, proc links of streams, SCM_RIGHTS to nobody; source: own */
#include "escape.h"

int main(void)
{
	TRYAS("descriptor 3", fcntl(3, F_GETFL));
	/* The streams are pipes of the supervisor: opened anew they must not give the other end's rights. */
	TRYAS("reading from standard output", read(1, &(char){ 0 }, 1));
	TRYAS("writing to standard input", write(0, "x", 1));
	TRYAS("standard output as a directory", openat(1, ".", O_RDONLY));
	TRYAS("up from standard output", open("/proc/self/fd/1/../../..", O_RDONLY));
	TRYAS("up from standard input", open("/proc/self/fd/0/..", O_RDONLY));
	TRYAS("socket of init", open("/proc/1/fd/3", O_RDWR));
	TRYAS("descriptor of init by pidfd", syscall(438, syscall(SYS_pidfd_open, 1, 0), 3, 0));
	return 0;
}
