/* Attempts by system calls as such. Without an argument 300: connect over IPv4,
 * IPv6 and with a mapped address, sendto over UDP, and three threads. "race N"
 * connects N times while a thread rewrites the address, and prints how many
 * were refused. "many N" makes N attempts from 10 threads. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long refused;
static long each;

static struct sockaddr_in v4(const char *a) {
	struct sockaddr_in s = {.sin_family = AF_INET, .sin_port = htons(443)};
	inet_pton(AF_INET, a, &s.sin_addr);
	return s;
}

static struct sockaddr_in6 v6(const char *a) {
	struct sockaddr_in6 s = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
	inet_pton(AF_INET6, a, &s.sin6_addr);
	return s;
}

static void reach(int family, int type, const void *to, socklen_t len) {
	int fd = syscall(SYS_socket, family, type, 0);
	long r = type == SOCK_STREAM ? syscall(SYS_connect, fd, to, len) : syscall(SYS_sendto, fd, "x", 1, 0, to, len);
	if (fd >= 0 && r < 0 && errno == ENETUNREACH) refused++;
	close(fd);
}

static void *all(void *unused) {
	struct sockaddr_in a = v4("192.0.2.1");
	struct sockaddr_in6 b = v6("2001:db8::1"), c = v6("::ffff:192.0.2.1");
	for (int i = 0; i < 20; i++) {
		reach(AF_INET, SOCK_STREAM, &a, sizeof a);
		reach(AF_INET6, SOCK_STREAM, &b, sizeof b);
		reach(AF_INET6, SOCK_STREAM, &c, sizeof c);
		reach(AF_INET, SOCK_DGRAM, &a, sizeof a);
		reach(AF_INET6, SOCK_DGRAM, &c, sizeof c);
	}
	return unused;
}

static struct sockaddr_in shared;
static atomic_int stop;

static void *rewrite(void *unused) {
	struct in_addr in = v4("127.0.0.1").sin_addr, out = v4("192.0.2.1").sin_addr;
	while (!stop) {
		*(volatile in_addr_t *)&shared.sin_addr.s_addr = out.s_addr;
		*(volatile in_addr_t *)&shared.sin_addr.s_addr = in.s_addr;
	}
	return unused;
}

static void race(void) {
	pthread_t t;
	shared = v4("192.0.2.1");
	pthread_create(&t, 0, rewrite, 0);
	for (long i = 0; i < each; i++) {
		int fd = syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0);
		if (syscall(SYS_connect, fd, &shared, sizeof shared) < 0 && errno == ENETUNREACH) refused++;
		close(fd);
	}
	stop = 1;
	pthread_join(t, 0);
}

static void *many(void *unused) {
	struct sockaddr_in a = v4("192.0.2.1");
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	for (long i = 0; i < each / 10; i++)
		if (syscall(SYS_connect, fd, &a, sizeof a) < 0 && errno == ENETUNREACH) refused++;
	return unused;
}

static void threads(int n, void *(*f)(void *)) {
	pthread_t t[10];
	for (int i = 0; i < n; i++) pthread_create(&t[i], 0, f, 0);
	for (int i = 0; i < n; i++) pthread_join(t[i], 0);
}

int main(int argc, char **argv) {
	if (argc > 2) each = atol(argv[2]);
	if (argc < 2) threads(3, all);
	else if (!strcmp(argv[1], "race")) race();
	else threads(10, many);
	printf("%ld\n", (long)refused);
	return 0;
}
