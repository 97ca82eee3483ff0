/* B2 A11: socket() over all families and types; source: moby AF_ALG commit, flatpak */
#include "escape.h"
#include <sys/socket.h>

/* One line per answer, with how often it came: an answer that is not expected
 * shows, whichever family gives it. */
int main(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, 6, 10 };
	int count[200] = { 0 };
	for (int family = 0; family <= 45; family++)
		for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
			int fd = socket(family, types[i], 0);
			count[fd < 0 ? errno : 0]++;
			if (fd >= 0)
				close(fd);
		}
	for (int e = 0; e < 200; e++)
		if (count[e] || e == ENETUNREACH)
			printf("%s: %d\n", e ? errname(e) : "made", count[e]);
	/* a socket pair is of AF_UNIX or not at all */
	int pair[2];
	memset(count, 0, sizeof count);
	for (int family = 0; family <= 45; family++)
		count[socketpair(family, SOCK_STREAM, 0, pair) < 0 ? errno : 0]++;
	for (int e = 0; e < 200; e++)
		if (count[e])
			printf("pairs, %s: %d\n", e ? errname(e) : "made", count[e]);
	return 0;
}
