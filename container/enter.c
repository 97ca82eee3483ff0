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
#include <sys/syscall.h>
#include <unistd.h>

#include "enter.h"

/* libcontainer/nsenter. Weak, because cgo links each package alone first. */
extern void nsexec(void) __attribute__((weak));

__attribute__((constructor(200))) static void enter(void)
{
	static char *const args[] = {"keeper", NULL}, *const none[] = {NULL};
	if (!secure_getenv(ENTER_VARIABLE) || !nsexec)
		return;
	nsexec();
	/* nothing of the host but the control socket and 0 to 2 goes on */
	if (syscall(SYS_close_range, IMAGE_FD, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0)
		syscall(SYS_execveat, IMAGE_FD, "", args, none, AT_EMPTY_PATH);
	dprintf(LOG_FD, "{\"level\":\"fatal\",\"msg\":\"cannot execute the keeper: %s\"}\n", strerror(errno));
	_exit(1);
}
