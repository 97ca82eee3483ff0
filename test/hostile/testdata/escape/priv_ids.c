/* B14 A51: capability sets before and after an exec, and ways to more; source: runc TestProcessEmptyCaps, CVE-2022-29162 */
#include "escape.h"
#include <grp.h>
#include <linux/capability.h>

/* The lines of status that say what this process may do. */
static void status(const char *when)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "Cap", 3) || !strncmp(line, "NoNewPrivs", 10) || !strncmp(line, "Seccomp:", 8)) {
			char *value = strchr(line, '\t') + 1;
			*strchr(line, ':') = 0;
			value[strcspn(value, "\n")] = 0;
			printf("%s, %s: %s\n", when, line, value);
		}
	uid_t u[3];
	gid_t g[3];
	getresuid(&u[0], &u[1], &u[2]);
	getresgid(&g[0], &g[1], &g[2]);
	printf("%s, users and groups: %d %d %d, %d %d %d\n", when, u[0], u[1], u[2], g[0], g[1], g[2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct all[2] = { { -1, -1, -1 }, { -1, -1, -1 } };
	gid_t zero = 0;
	if (argc > 1) {
		status("after exec");
		return 0;
	}
	status("before");
	TRYAS("capset", syscall(SYS_capset, &h, all));
	TRYAS("setuid 0", syscall(SYS_setuid, 0));
	TRYAS("setgid 0", syscall(SYS_setgid, 0));
	TRYAS("setresuid 0", syscall(SYS_setresuid, 0, 0, 0));
	TRYAS("setfsuid 0 changes it", (syscall(SYS_setfsuid, 0), syscall(SYS_setfsuid, -1) == 0 ? 0 : (errno = EPERM, -1)));
	TRYAS("setgroups", syscall(SYS_setgroups, 1, &zero));
	TRYAS("chown to 0", chown("/workspace", 0, 0));
	char *again[] = { argv[0], "again", 0 };
	execv(argv[0], again);
	return 2;
}
