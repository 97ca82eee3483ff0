/* B3: garbage in the upper half of a register; source: the truncation note of libseccomp */
#include "escape.h"
#include <sys/socket.h>

int main(void)
{
	int pair[2];
	const unsigned long high = 1UL << 32;
	TRYAS("AF_INET with an upper half", syscall(SYS_socket, 2 | high, SOCK_STREAM, 0));
	TRYAS("AF_UNIX with an upper half", syscall(SYS_socket, 1 | high, SOCK_STREAM, 0));
	TRYAS("AF_ALG with an upper half", syscall(SYS_socket, 38 | high, SOCK_SEQPACKET, 0));
	TRYAS("pair of AF_UNIX with an upper half", syscall(SYS_socketpair, 1 | high, SOCK_STREAM, 0, pair));
	TRYAS("raw socket behind an upper half", syscall(SYS_socket, 2, SOCK_RAW | high, 1));
	return 0;
}
