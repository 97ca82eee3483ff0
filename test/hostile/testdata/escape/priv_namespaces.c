/* A46 B17: a namespace of every kind by unshare, clone and clone3, another's by setns; source: sunwalker unshare, bubblewrap tests, deepce nsenter */
#include "escape.h"

static const struct { const char *name; unsigned long flag; } kinds[] = {
	{ "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS }, { "pid", CLONE_NEWPID },
	{ "net", CLONE_NEWNET }, { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
	{ "cgroup", CLONE_NEWCGROUP }, { "time", 0x80 },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static void report(const char *how, const char *kind, long r)
{
	char text[64];
	snprintf(text, sizeof text, "%s %s", how, kind);
	say(text, r);
}

/* A child that comes to be ends at once. */
static long spawn(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	return pid;
}

static long spawn3(uint64_t flags)
{
	struct { uint64_t flags, pidfd, child, parent, signal, stack, size, tls; } a = { flags, 0, 0, 0, SIGCHLD };
	long pid = syscall(435, &a, sizeof a);
	if (pid == 0)
		_exit(0);
	return pid;
}

int main(void)
{
	char path[64];
	for (unsigned i = 0; i < KINDS; i++) {
		report("unshare", kinds[i].name, unshare(kinds[i].flag));
		/* in clone the bit of the time namespace is the exit signal's */
		if (i < KINDS - 1) {
			report("clone", kinds[i].name, spawn(kinds[i].flag));
			report("clone with an upper half", kinds[i].name, spawn(kinds[i].flag | HIGH));
		}
		report("clone3", kinds[i].name, spawn3(kinds[i].flag));
		snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].name);
		int fd = open(path, O_RDONLY);
		report("setns", kinds[i].name, setns(fd, 0));
		snprintf(path, sizeof path, "/proc/1/ns/%s", kinds[i].name);
		report("open of init's", kinds[i].name, open(path, O_RDONLY));
	}
	TRYAS("unshare of everything", unshare(0x7e020000));
	TRYAS("unshare of the files", unshare(CLONE_FILES | CLONE_FS));
	TRYAS("setns to init by pidfd", setns(syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNET | CLONE_NEWNS));
	TRYAS("nsfs handle", syscall(SYS_open_by_handle_at, -10003, path, O_RDONLY));
	return 0;
}
