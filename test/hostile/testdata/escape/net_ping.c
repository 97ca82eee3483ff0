/* A5 A11: sockets of protocols beside TCP and UDP; source: sandlock tests, isolate 2.4 */
#include "escape.h"
#include <netinet/in.h>
#include <sys/socket.h>

int main(void)
{
	TRYAS("ping socket", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	TRYAS("ping socket, IPv6", socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6));
	TRYAS("raw ICMP socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	TRYAS("raw IP socket", socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
	TRYAS("raw ICMP socket, IPv6", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
	TRYAS("SCTP", socket(AF_INET, SOCK_STREAM, 132));
	TRYAS("MPTCP", socket(AF_INET, SOCK_STREAM, 262));
	TRYAS("UDP-Lite", socket(AF_INET, SOCK_DGRAM, 136));
	TRYAS("packet socket", socket(AF_PACKET, SOCK_RAW, htons(3)));
	TRYAS("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	TRYAS("AF_ALG", socket(38, SOCK_SEQPACKET, 0));
	TRYAS("AF_VSOCK", socket(40, SOCK_STREAM, 0));
	TRYAS("AF_XDP", socket(44, SOCK_RAW, 0));
	TRYAS("AF_TIPC", socket(30, SOCK_RDM, 0));
	TRYAS("AF_RXRPC", socket(33, SOCK_DGRAM, AF_INET));
	TRYAS("AF_KEY", socket(15, SOCK_RAW, 2));
	TRYAS("AF_BLUETOOTH", socket(31, SOCK_RAW, 1));
	return 0;
}
