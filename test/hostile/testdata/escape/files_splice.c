/* B33: the first calls of the page-cache exploits: AF_ALG, splice, vmsplice, tee, sendfile; source: CVE-2026-31431 */
#include "escape.h"
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

int main(void)
{
	char before[512], after[512];
	int p[2], q[2];
	int file = open("/usr/bin/env", O_RDONLY);
	if (file < 0 || pipe(p) || pipe(q) || pread(file, before, 512, 0) != 512)
		return 2;
	struct iovec v = { before, 4 };
	TRYAS("AF_ALG socket", socket(38, SOCK_SEQPACKET, 0));
	TRYAS("AF_ALG socket, close on exec", socket(38, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	TRYAS("AF_RXRPC socket", socket(33, SOCK_DGRAM, 2));
	TRYAS("xfrm by netlink", socket(16, SOCK_RAW, 6));
	TRYAS("splice from a file of the root", splice(file, &(loff_t){ 0 }, p[1], 0, 4, 0));
	TRYAS("splice between pipes", splice(p[0], 0, q[1], 0, 4, SPLICE_F_NONBLOCK));
	TRYAS("tee", tee(p[0], q[1], 4, SPLICE_F_NONBLOCK));
	TRYAS("vmsplice", vmsplice(p[1], &v, 1, SPLICE_F_GIFT));
	TRYAS("sendfile", sendfile(p[1], file, &(off_t){ 0 }, 4));
	TRYAS("writing after it", write(p[1], "evil", 4));
	pread(file, after, 512, 0);
	printf("the file: %s\n", memcmp(before, after, 512) ? "CHANGED" : "unchanged");
	return 0;
}
