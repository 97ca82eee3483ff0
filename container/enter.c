/* How the keeper comes into its namespaces; start.go says when and why.
 *
 * libcontainer's nsexec makes the namespaces in three processes, of which the
 * last returns from it, with nothing but the C library initialized. There this
 * constructor, which runs before libcontainer's own and before the Go run time,
 * puts the keeper in place of the process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "enter.h"

/* libcontainer/nsenter. Weak, because cgo links each package alone first. */
extern void nsexec(void) __attribute__((weak));

/* fail says why, as nsexec says its errors. */
static void fail(const char *what, const char *why)
{
	dprintf(LOG_FD, "{\"level\":\"fatal\",\"msg\":\"cannot %s: %s\"}\n", what, why);
	_exit(1);
}

__attribute__((constructor(200))) static void enter(void)
{
	static char *const args[] = {"keeper", NULL}, *const none[] = {NULL};
	int entered = getenv(ENTER_VARIABLE) != NULL;
	/* The program may have more rights than who started it. The variables and
	 * descriptors are that user's: they could have anything executed here, and
	 * libcontainer's constructor make namespaces with these rights. */
	if (getauxval(AT_SECURE)) {
		unsetenv("_LIBCONTAINER_INITPIPE");
		if (entered)
			fail("make a cell", "this program is set-uid or has file capabilities");
		return;
	}
	if (!entered || !nsexec)
		return;
	nsexec();
	/* nothing of the host but the control socket and 0 to 2 goes on */
	if (syscall(SYS_close_range, IMAGE_FD, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0)
		syscall(SYS_execveat, IMAGE_FD, "", args, none, AT_EMPTY_PATH);
	fail("execute the keeper", strerror(errno));
}
