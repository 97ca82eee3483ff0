/* B2 A11: changing the network: interfaces, routes, socket options, tun; source: sandlock and nsjail tests */
#include "escape.h"
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, big = 1 << 24;
	char request[256] = "lo";
	TRYAS("SIOCSIFADDR", ioctl(fd, SIOCSIFADDR, request));
	TRYAS("SIOCSIFADDR with an upper half", syscall(SYS_ioctl, fd, SIOCSIFADDR | HIGH, request));
	TRYAS("SIOCSIFFLAGS", ioctl(fd, SIOCSIFFLAGS, request));
	TRYAS("SIOCADDRT", ioctl(fd, SIOCADDRT, request));
	TRYAS("SIOCBRADDBR", ioctl(fd, 0x89a0, request));
	TRYAS("SO_MARK", setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof one));
	TRYAS("SO_RCVBUFFORCE", setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big));
	TRYAS("SO_PRIORITY 7", setsockopt(fd, SOL_SOCKET, SO_PRIORITY, (int[]){ 7 }, sizeof(int)));
	TRYAS("IP_TRANSPARENT", setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof one));
	TRYAS("TCP_REPAIR", setsockopt(fd, SOL_TCP, TCP_REPAIR, &one, sizeof one));
	TRYAS("/dev/net/tun", open("/dev/net/tun", O_RDWR));
	TRYAS("/dev/vhost-net", open("/dev/vhost-net", O_RDWR));
	return 0;
}
