/* A49 B4: the x32 table, and numbers that are none; source: kafel #19, isolate #190 */
#include "escape.h"

static void call(const char *what, long nr)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		errno = 0;
		_exit(syscall(nr, 0, 0, 0, 0, 0, 0) == -1 ? errno : 0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s: signal-%d\n", what, WTERMSIG(status));
	else
		printf("%s: %s\n", what, WEXITSTATUS(status) ? errname(WEXITSTATUS(status)) : "ok");
	fflush(stdout);
}

int main(void)
{
	call("x32 read", 0x40000000);
	call("x32 getpid", 0x40000000 | 39);
	call("x32 socket", 0x40000000 | 41);
	call("x32 execve", 0x40000000 | 520);
	call("x32 ptrace", 0x40000000 | 521);
	call("x32 unshare", 0x40000000 | 272);
	call("x32 number of the native table", 521);
	call("number with the sign bit", 0x80000000 | 39);
	call("number 100000", 100000);
	call("number -1", -1);
	return 0;
}
