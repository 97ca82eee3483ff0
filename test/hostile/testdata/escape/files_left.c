/* A43: leaves something in every place that could outlive a run, or looks for it; source: piston file_persistance, isolate 2.6, sunwalker ipc; cc: -lrt */
#include "escape.h"
#include <mqueue.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { KEY = 0x15011 };

/* A number above 0 makes, 0 looks. */
static void file(const char *path, int make)
{
	TRYAS(path, open(path, make ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY, 0666));
}

static void abstract(int make)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "\0left" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t n = offsetof(struct sockaddr_un, sun_path) + 5;
	if (make)
		TRYAS("abstract socket", bind(fd, (void *)&a, n) ? -1 : listen(fd, 1));
	else
		TRYAS("abstract socket", connect(fd, (void *)&a, n));
}

int main(int argc, char **argv)
{
	int make = argc > 1 && !strcmp(argv[1], "leave"), flags = make ? IPC_CREAT | IPC_EXCL | 0666 : 0;
	static const char *const places[] = { "/tmp/left", "/dev/shm/left", "/home/sandbox/left", "/workspace/left", "/dev/shm/sem.left" };
	for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
		file(places[i], make);
	TRYAS("SysV shared memory", shmget(KEY, make ? 4096 : 0, flags));
	TRYAS("SysV semaphores", semget(KEY, make ? 1 : 0, flags));
	TRYAS("SysV messages", msgget(KEY, flags));
	TRYAS("POSIX messages", mq_open("/left", make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0666, 0));
	abstract(make);
	if (make && fork() == 0) { /* a process that does not want to end */
		setsid();
		for (int sig = 1; sig < 32; sig++)
			signal(sig, SIG_IGN);
		if (fork() == 0)
			for (;;)
				pause();
		_exit(0);
	}
	if (make)
		return 0;
	int others = 0;
	for (int pid = 1; pid < 400; pid++)
		others += pid != getpid() && pid != 1 && pid != getppid() && kill(pid, 0) == 0;
	printf("other processes: %d\n", others);
	return 0;
}
