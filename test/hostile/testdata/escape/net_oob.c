/* B13: urgent data over AF_UNIX; source: LTP cve-2025-38236 */
#include "escape.h"
#include <sys/socket.h>

int main(void)
{
	int p[2];
	char c = 'x';
	struct iovec v = { &c, 1 };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };
	struct { struct msghdr h; unsigned n; } many = { h, 0 };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, p))
		return 2;
	TRYAS("send without MSG_OOB", send(p[0], &c, 1, 0));
	TRYAS("recv without MSG_OOB", recv(p[1], &c, 1, 0));
	TRYAS("send MSG_OOB", send(p[0], &c, 1, MSG_OOB));
	TRYAS("send MSG_OOB with an upper half", syscall(SYS_sendto, p[0], &c, 1, MSG_OOB | HIGH, 0, 0));
	TRYAS("sendmsg MSG_OOB", sendmsg(p[0], &h, MSG_OOB));
	TRYAS("sendmsg MSG_OOB with an upper half", syscall(SYS_sendmsg, p[0], &h, MSG_OOB | HIGH));
	TRYAS("recv MSG_OOB", recv(p[1], &c, 1, MSG_OOB));
	TRYAS("recvmsg MSG_OOB", recvmsg(p[1], &h, MSG_OOB));
	TRYAS("sendmmsg MSG_OOB", syscall(SYS_sendmmsg, p[0], &many, 1, MSG_OOB));
	TRYAS("recvmmsg MSG_OOB", syscall(SYS_recvmmsg, p[1], &many, 1, MSG_OOB, 0));
	return 0;
}
