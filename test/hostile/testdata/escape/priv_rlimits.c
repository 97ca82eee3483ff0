/* B36: core files, and limits beyond the hard ones; source: core(5), a core_pattern that is a pipe */
#include "escape.h"
#include <sys/resource.h>

static long set(int pid, unsigned long what, rlim_t soft, rlim_t hard)
{
	struct rlimit l = { soft, hard };
	return syscall(SYS_prlimit64, pid, what, &l, 0);
}

static long old(unsigned long what, rlim_t soft, rlim_t hard)
{
	struct rlimit l = { soft, hard };
	return syscall(SYS_setrlimit, what, &l);
}

int main(void)
{
	struct rlimit l;
	getrlimit(RLIMIT_CORE, &l);
	printf("core, soft and hard: %lu %lu\n", (long)l.rlim_cur, (long)l.rlim_max);
	fflush(stdout);
	TRYAS("core 0", set(0, RLIMIT_CORE, 0, 0));
	TRYAS("core 0, then back to 1", set(0, RLIMIT_CORE, 0, 1));
	TRYAS("core unlimited", set(0, RLIMIT_CORE, RLIM_INFINITY, RLIM_INFINITY));
	TRYAS("core with an upper half", set(0, RLIMIT_CORE | HIGH, 0, 0));
	TRYAS("core by setrlimit", old(RLIMIT_CORE, 0, 0));
	TRYAS("core by setrlimit with an upper half", old(RLIMIT_CORE | HIGH, 0, 0));
	TRYAS("more files than the hard limit", set(0, RLIMIT_NOFILE, 1 << 20, 1 << 20));
	TRYAS("more processes", set(0, RLIMIT_NPROC, RLIM_INFINITY, RLIM_INFINITY));
	TRYAS("larger files", set(0, RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY));
	TRYAS("message queues", set(0, RLIMIT_MSGQUEUE, 1 << 20, 1 << 20));
	TRYAS("real-time priority", set(0, RLIMIT_RTPRIO, 99, 99));
	TRYAS("locked memory", set(0, RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY));
	pid_t child = fork();
	if (child == 0)
		*(volatile int *)8 = 1;
	int status = 0;
	waitpid(child, &status, 0);
	printf("a crash: %s\n", !WIFSIGNALED(status) ? "survived" : WCOREDUMP(status) ? "core written" : "no core");
	return 0;
}
