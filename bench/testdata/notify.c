/* For each line of standard input: 50 times each a connect to a Unix socket of
 * its own, a connect to nowhere, 1000 getppid in one, and a file opened and
 * closed. Prints the nanoseconds of each, as JSON. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static struct sockaddr_un own = {.sun_family = AF_UNIX};
static socklen_t own_len;

static void unix_connect(void) {
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	connect(s, (void *)&own, own_len);
	close(s);
}

static void refused_connect(void) {
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(9)};
	inet_pton(AF_INET, "192.0.2.1", &a.sin_addr);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	connect(s, (void *)&a, sizeof a);
	close(s);
}

static void ask_parent(void) { syscall(SYS_getppid); }

static void open_close(void) { close(open("/usr/bin/env", O_RDONLY | O_CLOEXEC)); }

static void measure(const char *name, void (*f)(void), int each, const char *end) {
	printf("\"%s\":[", name);
	for (int i = 0; i < 50; i++) {
		long began = now();
		for (int j = 0; j < each; j++) f();
		printf("%s%ld", i ? "," : "", (now() - began) / each);
	}
	printf("]%s", end);
}

int main(void) {
	char line[64];
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	own_len = sizeof own.sun_family + 1 + snprintf(own.sun_path + 1, 64, "isolate-bench-%d", getpid());
	if (bind(s, (void *)&own, own_len)) return 1;
	while (fgets(line, sizeof line, stdin)) {
		printf("{");
		measure("unix", unix_connect, 1, ",");
		measure("refused", refused_connect, 1, ",");
		measure("getppid", ask_parent, 1000, ",");
		measure("open", open_close, 20, "}\n");
		fflush(stdout);
	}
	return 0;
}
