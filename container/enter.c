/* How the keeper comes into its namespaces; start.go says when and why.
 *
 * A process that is to become one waits until there is a cell to make.
 * libcontainer's nsexec makes the namespaces in three processes, of which the
 * last returns from it, with nothing but the C library initialized. There this
 * constructor, which runs before libcontainer's own and before the Go run time,
 * puts the keeper in place of the process. A process that early.c has begun is
 * told its namespaces at once, and only waits for the keeper.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "enter.h"

/* libcontainer/nsenter. Weak, because cgo links each package alone first. */
extern void nsexec(void) __attribute__((weak));

/* fail says why, as nsexec says its errors. */
_Noreturn static void fail(const char *what, const char *why)
{
	dprintf(LOG_FD, "{\"level\":\"fatal\",\"msg\":\"cannot %s: %s\"}\n", what, why);
	_exit(1);
}

/* called waits for the byte that says that a cell is wanted, and returns the
 * descriptor that may come with it, or -1: the cgroup that it belongs to, behind
 * which stands what nsexec reads, or the keeper. */
static int called(void)
{
	char byte;
	int with = -1;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof with)];
	} control;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n = recvmsg(INIT_FD, &m, MSG_CMSG_CLOEXEC);
	if (n == 0)
		_exit(0); /* who started us does not want it any more, or is gone */
	if (n < 0)
		fail("wait for a cell", strerror(errno));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof with))
		memcpy(&with, CMSG_DATA(c), sizeof with);
	return with;
}

/* move_into goes on in a process that is born in the cgroup: to move this one
 * would have to wait for the kernel (docs/adr/0003-cgroup-moves.md). It is a
 * child of who started us, as we are. */
static void move_into(int cgroup)
{
	struct clone_args how = {.flags = CLONE_PARENT | CLONE_INTO_CGROUP, .cgroup = cgroup};
	long pid = syscall(SYS_clone3, &how, sizeof how);
	if (pid < 0)
		fail("start in the keepers' cgroup", strerror(errno));
	if (pid > 0)
		_exit(0);
	close(cgroup);
}

/* become_keeper takes nothing of the host along but the control socket and 0 to
 * 2. */
_Noreturn static void become_keeper(void)
{
	static char *const args[] = {"keeper", NULL}, *const none[] = {NULL};
	if (syscall(SYS_close_range, IMAGE_FD, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0)
		syscall(SYS_execveat, IMAGE_FD, "", args, none, AT_EMPTY_PATH);
	fail("execute the keeper", strerror(errno));
}

void enter_ahead(void)
{
	char init[12], log[12];
	snprintf(init, sizeof init, "%d", INIT_FD);
	snprintf(log, sizeof log, "%d", LOG_FD);
	if (!nsexec || setenv("_LIBCONTAINER_INITPIPE", init, 1) != 0 || setenv("_LIBCONTAINER_LOGPIPE", log, 1) != 0 ||
	    setenv("_LIBCONTAINER_LOGLEVEL", "2", 1) != 0)
		fail("make a cell", "there is no memory");
	nsexec();
	int image = called();
	if (image < 0 || (image != IMAGE_FD && dup2(image, IMAGE_FD) < 0))
		fail("execute the keeper", "it did not come");
	become_keeper();
}

__attribute__((constructor(200))) static void enter(void)
{
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
	int cgroup = called();
	if (cgroup >= 0)
		move_into(cgroup);
	nsexec();
	become_keeper();
}
