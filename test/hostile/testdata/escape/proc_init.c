/* B29: all that /proc has of init, its signals and its limits; source: CVE-2016-9962, CDK check-ptrace */
#include "escape.h"
#include <dirent.h>
#include <sys/resource.h>

static long list(const char *path)
{
	DIR *d = opendir(path);
	if (!d)
		return -1;
	errno = 0;
	return readdir(d) ? 0 : -1;
}

static long text(const char *path)
{
	char b[64];
	int fd = open(path, O_RDONLY);
	return fd < 0 ? -1 : read(fd, b, sizeof b);
}

int main(void)
{
	char b[256];
	static const char *const links[] = { "exe", "cwd", "root", "ns/mnt", "ns/user", "fd/0", "fd/3", "task/1/cwd" };
	static const char *const files[] = { "mem", "environ", "maps", "smaps", "auxv", "pagemap", "stack",
		"io", "task/1/mem", "task/1/environ" };
	for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
		char path[32], target[64];
		snprintf(path, sizeof path, "/proc/1/%s", links[i]);
		snprintf(b, sizeof b, "read link %s", path);
		TRYAS(b, readlink(path, target, sizeof target));
		snprintf(b, sizeof b, "open %s", path);
		TRYAS(b, open(path, O_RDONLY));
	}
	for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(b, sizeof b, "/proc/1/%s", files[i]);
		TRYAS(b, text(b));
	}
	TRYAS("write /proc/1/mem", open("/proc/1/mem", O_RDWR));
	TRYAS("write /proc/1/exe", open("/proc/1/exe", O_RDWR));
	TRYAS("/proc/1/syscall", text("/proc/1/syscall"));
	TRYAS("/proc/1/personality", text("/proc/1/personality"));
	TRYAS("list /proc/1/root", list("/proc/1/root/"));
	TRYAS("list /proc/1/cwd", list("/proc/1/cwd/"));
	/* The kernel takes signals for init from inside and throws them away. */
	for (int sig = 1; sig < 65; sig++)
		if (kill(1, sig) && errno != EINVAL)
			printf("signal %d to init: %s\n", sig, errname(errno));
	int fd = syscall(SYS_pidfd_open, 1, 0);
	syscall(SYS_pidfd_send_signal, fd, SIGKILL, 0, 0);
	for (int i = 0; i < 100; i++)
		kill(1, SIGKILL), kill(1, SIGSTOP);
	usleep(20000);
	TRYAS("init after all signals", kill(1, 0));
	struct rlimit none = { 0, 0 }, old;
	/* The kernel would let the user do these to init, who is the same user. */
	TRYAS("core limit of init", syscall(SYS_prlimit64, 1, RLIMIT_CORE, &none, 0));
	TRYAS("limits of init, reading", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, 0, &old));
	TRYAS("limits of init, lowering", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &none, 0));
	TRYAS("limits of init, raising", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &old, 0));
	/* An init that is last in line could not end the others in time. */
	unsigned long one = 1;
	TRYAS("priority of init", syscall(SYS_setpriority, PRIO_PROCESS, 1, 19));
	TRYAS("priority of all of the user", syscall(SYS_setpriority, PRIO_USER, 0, 19));
	TRYAS("processors of init", syscall(SYS_sched_setaffinity, 1, sizeof one, &one));
	return 0;
}
