/* B41: takes kernel objects of which a user has a number, in one way, until it
 * is refused. Prints how many it had and the errno, keeps them, and waits for
 * its standard input to end. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int instances(int i)
{
	(void)i;
	return inotify_init1(IN_CLOEXEC);
}

static int watches(int i)
{
	static int fd = -1;
	char name[32];
	if (fd < 0 && (fd = inotify_init1(IN_CLOEXEC)) < 0)
		return -1;
	snprintf(name, sizeof name, "/tmp/%d", i);
	if (mkdir(name, 0700))
		return -1;
	return inotify_add_watch(fd, name, IN_MODIFY);
}

static int timers(int i)
{
	timer_t t;
	(void)i;
	return timer_create(CLOCK_MONOTONIC, 0, &t);
}

static int signals(int i)
{
	union sigval v = { .sival_int = i };
	return sigqueue(getpid(), SIGRTMIN, v);
}

int main(int argc, char **argv)
{
	struct { const char *name; int (*make)(int); } ways[] = {
		{ "instances", instances }, { "watches", watches }, { "timers", timers }, { "signals", signals },
	};
	sigset_t all;
	int n;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, 0);
	for (unsigned w = 0; argc > 1 && w < sizeof ways / sizeof ways[0]; w++) {
		if (strcmp(argv[1], ways[w].name))
			continue;
		for (n = 0; n < 1000000 && ways[w].make(n) >= 0; n++)
			;
		printf("%d %s\n", n, strerrorname_np(errno));
		fflush(stdout);
		return (int)read(0, &n, 1);
	}
	return 2;
}
