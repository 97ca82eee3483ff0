/* A53 B32: typing into the terminal of whoever started us; source: CVE-2017-5226, CVE-2019-10063, CVE-2023-28100 */
#include "escape.h"
#include <sys/ioctl.h>

int main(void)
{
	char c = '\n', paste[16] = { 3 };
	for (int fd = 0; fd < 3; fd++) {
		char text[64];
		snprintf(text, sizeof text, "TIOCSTI on %d", fd);
		TRYAS(text, ioctl(fd, TIOCSTI, &c));
		snprintf(text, sizeof text, "TIOCSTI with an upper half on %d", fd);
		TRYAS(text, syscall(SYS_ioctl, fd, TIOCSTI | HIGH, &c));
		snprintf(text, sizeof text, "TIOCLINUX on %d", fd);
		TRYAS(text, ioctl(fd, 0x541c, paste));
		snprintf(text, sizeof text, "TIOCLINUX with an upper half on %d", fd);
		TRYAS(text, syscall(SYS_ioctl, fd, 0x541c | HIGH, paste));
	}
	TRYAS("TIOCCONS", ioctl(0, TIOCCONS, 0));
	TRYAS("TIOCSETD", ioctl(0, TIOCSETD, &(int){ 3 }));
	TRYAS("TIOCVHANGUP", ioctl(0, 0x5437, 0));
	TRYAS("/dev/tty", open("/dev/tty", O_RDWR));
	TRYAS("TIOCSTI through /dev/tty", open("/dev/tty", O_RDWR) < 0 ? -1 : ioctl(open("/dev/tty", O_RDWR), TIOCSTI, &c));
	TRYAS("/dev/console", open("/dev/console", O_RDWR));
	TRYAS("/dev/tty0", open("/dev/tty0", O_RDWR));
	TRYAS("/dev/vcs", open("/dev/vcs", O_RDWR));
	return 0;
}
