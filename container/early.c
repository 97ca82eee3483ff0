/* A cell's process that is begun before the Go run time; early.go says why.
 * What goes wrong before the fork ends in no such process, and Spawn starts one
 * as ever; what goes wrong after it is told as of any other, by nsexec's log. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "early.h"
#include "enter.h"

static struct early begun;

struct early early_take(void)
{
	struct early e = begun;
	begun.pid = 0;
	return e;
}

/* put_attr appends an attribute as nsexec reads it. */
static void put_attr(struct early *e, unsigned short kind, const void *value, unsigned short n)
{
	struct nlattr head = {.nla_len = NLA_HDRLEN + n, .nla_type = kind};
	memcpy(e->told + e->size, &head, sizeof head);
	memcpy(e->told + e->size + NLA_HDRLEN, value, n);
	e->size += NLA_ALIGN(NLA_HDRLEN + n);
}

static void put_map(struct early *e, unsigned short kind, unsigned host)
{
	char map[32];
	put_attr(e, kind, map, 1 + snprintf(map, sizeof map, "0 %u 1\n", host));
}

void early_words(struct early *e, unsigned uid, unsigned gid)
{
	const unsigned flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
	const unsigned yes = 1;
	struct nlmsghdr head = {.nlmsg_type = INIT_MSG};
	memset(e->told, 0, sizeof e->told);
	e->size = NLMSG_HDRLEN;
	put_attr(e, CLONE_FLAGS_ATTR, &flags, sizeof flags);
	put_map(e, UID_MAP_ATTR, uid ? uid : DROPPED_ID);
	put_map(e, GID_MAP_ATTR, uid ? gid : DROPPED_ID);
	put_attr(e, uid ? ROOTLESS_EUID_ATTR : SETGROUP_ATTR, &yes, sizeof yes);
	head.nlmsg_len = e->size;
	memcpy(e->told, &head, sizeof head);
}

/* high moves a descriptor out of the way of 0 to 2, which may be closed, and of
 * those that a command line may name. */
static int high(int fd)
{
	int up = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (fd >= 0)
		close(fd);
	return up;
}

static int pair(int type, int fds[2])
{
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0)
		return 0;
	fds[0] = high(fds[0]);
	fds[1] = high(fds[1]);
	return fds[0] >= 0 && fds[1] >= 0;
}

/* become is the new process. Its descriptors are those that startNewcomer
 * gives, but for the image, which follows when a cell is wanted. */
static void become(int null, int control, int call, int words)
{
	if (setpgid(0, 0) != 0 || chdir("/") != 0 || clearenv() != 0)
		_exit(1);
	for (int fd = 0; fd <= IMAGE_FD; fd++)
		if (fd != CONTROL_FD && dup2(null, fd) < 0)
			_exit(1);
	if (dup2(control, CONTROL_FD) < 0 || dup2(call, INIT_FD) < 0 || dup2(words, LOG_FD) < 0 ||
	    syscall(SYS_close_range, LOG_FD + 1, ~0U, 0) != 0)
		_exit(1);
	enter_ahead();
}

void isolate_early_begin(void)
{
	struct early e = {0};
	int ends[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}; /* control, call, words */
	int null = -1;
	/* On version 2 of cgroups it has to be born into a cgroup that is not
	 * there yet (Ahead). */
	if (getauxval(AT_SECURE) || access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0)
		return;
	early_words(&e, geteuid(), getegid());
	e.pid = -1;
	if (pair(SOCK_SEQPACKET, ends[0]) && pair(SOCK_STREAM, ends[1]) && pair(SOCK_STREAM, ends[2]) &&
	    (null = high(open("/dev/null", O_RDWR))) >= 0 &&
	    send(ends[1][0], e.told, e.size, MSG_NOSIGNAL) == (ssize_t)e.size)
		e.pid = fork();
	if (e.pid == 0)
		become(null, ends[0][1], ends[1][1], ends[2][1]);
	close(null);
	for (int i = 0; i < 3; i++) {
		close(ends[i][1]);
		if (e.pid < 0)
			close(ends[i][0]);
	}
	if (e.pid < 0)
		return;
	setpgid(e.pid, e.pid); /* whoever of the two comes first */
	e.control = ends[0][0];
	e.call = ends[1][0];
	e.words = ends[2][0];
	begun = e;
}
