/* B14 A51: executing from where it is not wanted, setuid of its own making; source: bubblewrap tests, sunwalker */
#include "escape.h"
#include <sys/statvfs.h>

static int copy(const char *to, mode_t mode)
{
	char b[65536];
	ssize_t n;
	int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	while ((n = read(in, b, sizeof b)) > 0)
		if (write(out, b, n) != n)
			return -1;
	close(out);
	return chmod(to, mode);
}

static void run(const char *what, const char *path)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		execl(path, path, "child", (char *)0);
		_exit(errno);
	}
	waitpid(child, &status, 0);
	errno = WEXITSTATUS(status);
	say(what, errno ? -1 : 0);
}

static void options(const char *path)
{
	struct statvfs s;
	if (statvfs(path, &s) == 0)
		printf("%s:%s%s%s%s\n", path, s.f_flag & ST_RDONLY ? " ro" : " rw", s.f_flag & ST_NOSUID ? ",nosuid" : "",
		       s.f_flag & ST_NODEV ? ",nodev" : "", s.f_flag & ST_NOEXEC ? ",noexec" : "");
}

int main(int argc, char **argv)
{
	if (argc > 1) /* the child: has it gained anything? */
		return geteuid() == getuid() && getegid() == getgid() ? 0 : EPERM;
	copy("/dev/shm/copy", 0755);
	copy("/workspace/setuid", 06755);
	copy("/tmp/copy", 0755);
	run("exec in /dev/shm", "/dev/shm/copy");
	run("exec in /tmp", "/tmp/copy");
	run("exec of an own setuid file, no gain", "/workspace/setuid");
	TRYAS("exec of a mapping from /dev/shm", mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open("/dev/shm/copy", O_RDONLY), 0) == MAP_FAILED ? -1 : 0);
	static const char *const places[] = { "/", "/usr", "/etc", "/workspace", "/tmp", "/dev/shm", "/home/sandbox", "/proc" };
	for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
		options(places[i]);
	return 0;
}
