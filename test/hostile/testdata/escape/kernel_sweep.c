/* A50 B16: every system call number from 0 to 600 with zeros, each in a process of its own; source: sandlock seccomp tests, trinity */
#include "escape.h"

enum { CALLS = 601 };

/* What the calls returned; a result that never came stays at the first value. */
static volatile long *results;

int main(void)
{
	results = mmap(0, CALLS * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int nr = 0; nr < CALLS; nr++) {
		int status;
		results[nr] = -100000;
		pid_t child = fork();
		if (child < 0)
			return 2;
		if (child == 0) {
			struct { long sec, usec; } timer[2] = { { 0, 0 }, { 0, 300000 } };
			setsid(); /* a signal to the own group stays here */
			syscall(SYS_setitimer, 0, timer, 0); /* ends calls that wait */
			errno = 0;
			long r = syscall(nr, 0, 0, 0, 0, 0, 0);
			results[nr] = r == -1 ? -errno : r < 0 ? 0 : r;
			_exit(0);
		}
		waitpid(child, &status, 0);
		while (waitpid(-1, 0, __WALL | WNOHANG) > 0)
			; /* a process that the call made */
		long r = results[nr];
		if (r != -100000)
			printf("%d: %s\n", nr, r < 0 ? errname(-r) : "ok");
		else if (WIFSIGNALED(status))
			printf("%d: signal-%d\n", nr, WTERMSIG(status));
		else
			printf("%d: exit\n", nr);
	}
	return 0;
}
