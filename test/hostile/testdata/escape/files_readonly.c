/* B16 A37: writing to what is not the program's: system files, mount points, devices, stand-ins; source: runc mask.bats, CDK mount-* */
#include "escape.h"
#include <sys/time.h>

int main(void)
{
	TRYAS("a new file in /", open("/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /usr/bin", open("/usr/bin/evil", O_WRONLY | O_CREAT, 0755));
	TRYAS("a new file in /etc", open("/etc/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /dev", open("/dev/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /run", open("/run/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /home", open("/home/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /sys", open("/sys/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new file in /proc", open("/proc/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("a new directory in /var", mkdir("/var/evil", 0755));
	TRYAS("writing /etc/passwd", open("/etc/passwd", O_WRONLY));
	TRYAS("writing /etc/ld.so.cache", open("/etc/ld.so.cache", O_WRONLY | O_TRUNC));
	TRYAS("writing /usr/bin/env", open("/usr/bin/env", O_WRONLY));
	TRYAS("cutting /etc/passwd", truncate("/etc/passwd", 0));
	TRYAS("removing /usr/bin/env", unlink("/usr/bin/env"));
	TRYAS("removing /etc/passwd", unlink("/etc/passwd"));
	TRYAS("removing /dev/null", unlink("/dev/null"));
	TRYAS("removing a mount point", rmdir("/workspace"));
	TRYAS("renaming /etc", rename("/etc", "/workspace/etc"));
	TRYAS("renaming the workspace", rename("/workspace", "/workspace2"));
	TRYAS("a link to /usr/bin/env in the workspace", link("/usr/bin/env", "/workspace/env"));
	TRYAS("a symbolic link in /etc", symlink("/workspace", "/etc/evil"));
	TRYAS("mode of /etc/passwd", chmod("/etc/passwd", 0666));
	TRYAS("mode of /", chmod("/", 0777));
	TRYAS("mode of /usr/bin/env", chmod("/usr/bin/env", 0777));
	TRYAS("mode of /dev/null", chmod("/dev/null", 0777));
	TRYAS("times of /etc/passwd", utimes("/etc/passwd", 0));
	TRYAS("owner of /etc/passwd", chown("/etc/passwd", 1000, 1000));
	TRYAS("writing the stand-in of cpuinfo", open("/proc/cpuinfo", O_WRONLY));
	TRYAS("mode of the stand-in of cpuinfo", chmod("/proc/cpuinfo", 0666));
	TRYAS("writing the directory of stand-ins", open("/sys/.proc/evil", O_WRONLY | O_CREAT, 0644));
	TRYAS("writing the cover of directories", open("/sys/.empty/evil", O_WRONLY | O_CREAT, 0644));
	return 0;
}
