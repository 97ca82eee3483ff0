/* A9 B8: Unix sockets of the host, by abstract name and by path; source: CVE-2020-15257, CDK shim-pwn, landrun #43 */
#include "escape.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static long reach(const char *name, int abstract, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	memcpy(a.sun_path + abstract, name, n);
	int fd = socket(AF_UNIX, type, 0);
	if (fd < 0)
		return -1;
	return connect(fd, (void *)&a, offsetof(struct sockaddr_un, sun_path) + n + 1);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	/* the host listens at these two while this runs */
	TRYAS("abstract name of the host", reach(argv[1], 1, SOCK_STREAM));
	TRYAS("path of the host", reach(argv[2], 0, SOCK_STREAM));
	TRYAS("@/containerd-shim/x", reach("/containerd-shim/x", 1, SOCK_STREAM));
	TRYAS("@/tmp/.X11-unix/X0", reach("/tmp/.X11-unix/X0", 1, SOCK_STREAM));
	TRYAS("@/tmp/dbus-x", reach("/tmp/dbus-x", 1, SOCK_STREAM));
	TRYAS("/var/run/docker.sock", reach("/var/run/docker.sock", 0, SOCK_STREAM));
	TRYAS("/run/containerd/containerd.sock", reach("/run/containerd/containerd.sock", 0, SOCK_STREAM));
	TRYAS("/run/dbus/system_bus_socket", reach("/run/dbus/system_bus_socket", 0, SOCK_STREAM));
	TRYAS("/run/systemd/private", reach("/run/systemd/private", 0, SOCK_STREAM));
	TRYAS("/tmp/.X11-unix/X0", reach("/tmp/.X11-unix/X0", 0, SOCK_STREAM));
	TRYAS("/dev/log", reach("/dev/log", 0, SOCK_DGRAM));
	return 0;
}
