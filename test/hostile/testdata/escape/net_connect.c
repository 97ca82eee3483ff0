/* A1 A3 A7 B7: every way to name an outside address; source: CDK metadata check, sandbox runtimes' READMEs */
#include "escape.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int port;

/* Where to: a socket address of either family. */
static socklen_t to(struct sockaddr_storage *s, const char *ip, int p)
{
	struct sockaddr_in *four = (void *)s;
	struct sockaddr_in6 *six = (void *)s;
	memset(s, 0, sizeof *s);
	if (inet_pton(AF_INET, ip, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(p);
		return sizeof *four;
	}
	inet_pton(AF_INET6, ip, &six->sin6_addr);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(p);
	return sizeof *six;
}

enum way { CONNECT, SENDTO, SENDMSG, FASTOPEN, FASTMSG, BIND, SENDMMSG };

static long go(int type, enum way w, const char *ip, int p)
{
	struct sockaddr_storage s;
	struct iovec v = { "x", 1 };
	struct msghdr h = { .msg_name = &s, .msg_iov = &v, .msg_iovlen = 1 };
	struct { struct msghdr h; unsigned n; } many = { h, 0 };
	h.msg_namelen = many.h.msg_namelen = to(&s, ip, p);
	many.h.msg_name = &s;
	int fd = socket(s.ss_family, type, 0), yes = 1;
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
	switch (w) {
	case CONNECT: return connect(fd, (void *)&s, h.msg_namelen);
	case SENDTO: return sendto(fd, "x", 1, 0, (void *)&s, h.msg_namelen);
	case SENDMSG: return sendmsg(fd, &h, 0);
	case FASTOPEN: return sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&s, h.msg_namelen);
	case FASTMSG: return sendmsg(fd, &h, MSG_FASTOPEN);
	case BIND: return bind(fd, (void *)&s, h.msg_namelen);
	case SENDMMSG: return syscall(SYS_sendmmsg, fd, &many, 1, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	port = atoi(argv[argc - 1]);
	TRYAS("connect TCP 192.0.2.1", go(SOCK_STREAM, CONNECT, "192.0.2.1", port));
	TRYAS("connect TCP 169.254.169.254:80", go(SOCK_STREAM, CONNECT, "169.254.169.254", 80));
	TRYAS("connect TCP 10.0.0.5", go(SOCK_STREAM, CONNECT, "10.0.0.5", port));
	TRYAS("connect TCP 2001:db8::1", go(SOCK_STREAM, CONNECT, "2001:db8::1", port));
	TRYAS("connect TCP ::ffff:192.0.2.1", go(SOCK_STREAM, CONNECT, "::ffff:192.0.2.1", port));
	TRYAS("connect UDP 192.0.2.1", go(SOCK_DGRAM, CONNECT, "192.0.2.1", port));
	TRYAS("sendto UDP 192.0.2.1", go(SOCK_DGRAM, SENDTO, "192.0.2.1", port));
	TRYAS("sendto UDP broadcast", go(SOCK_DGRAM, SENDTO, "255.255.255.255", port));
	TRYAS("sendto UDP multicast", go(SOCK_DGRAM, SENDTO, "224.0.0.1", port));
	TRYAS("sendto TCP fast open", go(SOCK_STREAM, FASTOPEN, "192.0.2.1", port));
	/* the filter does not see these addresses; the namespace has no route */
	TRYAS("sendmsg UDP 192.0.2.1", go(SOCK_DGRAM, SENDMSG, "192.0.2.1", port));
	TRYAS("sendmsg UDP 2001:db8::1", go(SOCK_DGRAM, SENDMSG, "2001:db8::1", port));
	TRYAS("sendmsg TCP fast open", go(SOCK_STREAM, FASTMSG, "192.0.2.1", port));
	TRYAS("sendmmsg UDP 192.0.2.1", go(SOCK_DGRAM, SENDMMSG, "192.0.2.1", port));
	/* the host listens here, this namespace does not */
	TRYAS("connect TCP 127.0.0.1", go(SOCK_STREAM, CONNECT, "127.0.0.1", port));
	TRYAS("connect TCP 0.0.0.0", go(SOCK_STREAM, CONNECT, "0.0.0.0", port));
	TRYAS("connect TCP ::1", go(SOCK_STREAM, CONNECT, "::1", port));
	TRYAS("bind TCP 192.0.2.1", go(SOCK_STREAM, BIND, "192.0.2.1", port));
	TRYAS("bind TCP port 80", go(SOCK_STREAM, BIND, "127.0.0.1", 80));
	return 0;
}
