/* B37: stress-ng fork: every process forks for as long as it lives. The first
 * says with which errno the cap announced itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	pid_t first = getpid();
	int said = 0;
	for (;;) {
		if (fork() >= 0)
			continue;
		if (getpid() == first && !said) {
			said = 1;
			puts(strerrorname_np(errno));
			fflush(stdout);
		}
	}
}
