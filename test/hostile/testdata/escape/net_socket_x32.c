/* B4 A49: socket by the x32 table; source: firejail #87, kafel #19 */
#include "escape.h"

int main(void)
{
	TRYAS("x32 socket", syscall(0x40000000 | 41, 16 /* AF_NETLINK */, 3, 0));
	return 0;
}
