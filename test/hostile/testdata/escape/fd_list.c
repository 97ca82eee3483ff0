/* A33 B23 A13: which descriptors are open, and what they reach; source: runc TestFdLeaks, CVE-2024-21626, codex #10109 */
#include "escape.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>

int main(void)
{
	char list[256] = "", path[64], target[256];
	struct stat st;
	/* Beyond the limit too: descriptors from before it was set would be open there. */
	for (int fd = 0; fd < 70000; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", *list ? " " : "", fd);
	printf("open: %s\n", list);
	for (int fd = 3; fd < 70000; fd++) {
		if (send(fd, "x", 1, MSG_NOSIGNAL) > 0)
			printf("send to %d: SENT\n", fd);
		if (openat(fd, ".", O_RDONLY) >= 0 && fcntl(fd, F_GETFD) >= 0)
			printf("directory %d: OPENED\n", fd);
		if (fchdir(fd) == 0)
			printf("fchdir %d: CHANGED\n", fd);
	}
	for (int fd = 0; fd < 3; fd++) {
		fstat(fd, &st);
		printf("kind of %d: %s\n", fd, S_ISFIFO(st.st_mode) ? "pipe" : S_ISCHR(st.st_mode) ? "character device" : "OTHER");
		printf("seeking in %d moves the caller's file: %s\n", fd, lseek(fd, 1, SEEK_SET) == 1 && !S_ISCHR(st.st_mode) ? "YES" : "no");
	}
	for (int fd = 3; fd < 20; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof target) > 0)
			printf("%s: THERE\n", path);
	}
	DIR *d = opendir("/proc/self/task");
	int threads = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		threads += e->d_name[0] != '.';
	printf("threads: %d\n", threads);
	getcwd(path, sizeof path);
	printf("working directory: %s\n", path);
	return 0;
}
