/* B49: a storm of vfork and exec, and signals to everything there is; source: own */
#include "escape.h"

static void ignore(int sig)
{
	(void)sig;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return 0;
	for (int i = 0; i < 500; i++) {
		pid_t child = vfork();
		if (child == 0) {
			execl(argv[0], argv[0], "again", (char *)0);
			_exit(127);
		}
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			return 2;
	}
	printf("500 times vfork and exec: ok\n");
	fflush(stdout);
	for (int sig = 1; sig < 32; sig++)
		if (sig != SIGKILL && sig != SIGSTOP && sig != SIGCHLD)
			signal(sig, ignore);
	for (int i = 0; i < 200; i++)
		for (int sig = 1; sig < 32; sig++)
			if (sig != SIGKILL && sig != SIGSTOP) {
				kill(0, sig);
				kill(-1, sig);
			}
	printf("200 times every signal to the own group and to all: ok\n");
	fflush(stdout);
	TRYAS("SIGKILL to all but init and itself", kill(-1, SIGKILL));
	TRYAS("SIGSTOP to all but init and itself", kill(-1, SIGSTOP));
	return 0;
}
