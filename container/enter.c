/* How the keeper comes into its namespaces; start.go says when and why.
 *
 * A process that is to become one waits until there is a cell to make.
 * libcontainer's nsexec makes the namespaces in three processes, of which the
 * last returns from it, with nothing but the C library initialized. There this
 * constructor, which runs before libcontainer's own and before the Go run time,
 * puts the keeper in place of the process.
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
static void fail(const char *what, const char *why)
{
	dprintf(LOG_FD, "{\"level\":\"fatal\",\"msg\":\"cannot %s: %s\"}\n", what, why);
	_exit(1);
}

/* called waits for the byte that says that a cell is wanted, and returns the
 * cgroup that may come with it, or -1. What nsexec reads stands behind it. */
static int called(void)
{
	char byte;
	int cgroup = -1;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof cgroup)];
	} control;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n = recvmsg(INIT_FD, &m, MSG_CMSG_CLOEXEC);
	if (n == 0)
		_exit(0); /* who started us does not want it any more, or is gone */
	if (n < 0)
		fail("wait for a cell", strerror(errno));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof cgroup))
		memcpy(&cgroup, CMSG_DATA(c), sizeof cgroup);
	return cgroup;
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
	int cgroup = called();
	if (cgroup >= 0)
		move_into(cgroup);
	nsexec();
	/* nothing of the host but the control socket and 0 to 2 goes on */
	if (syscall(SYS_close_range, IMAGE_FD, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0)
		syscall(SYS_execveat, IMAGE_FD, "", args, none, AT_EMPTY_PATH);
	fail("execute the keeper", strerror(errno));
}
