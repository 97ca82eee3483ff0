/* A50: modules, kernel images, clocks, the machine's name, its logs and ports; source: sandlock seccomp tests, isolate 2.4 */
#include "escape.h"
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

int main(void)
{
	struct timeval tv = { 0, 0 };
	struct timespec ts = { 0, 0 };
	struct timex tx = { .modes = ADJ_OFFSET };
	char log[64];
	TRYAS("init_module", syscall(SYS_init_module, "", 0, ""));
	TRYAS("finit_module", syscall(SYS_finit_module, 0, "", 0));
	TRYAS("delete_module", syscall(SYS_delete_module, "ext4", 0));
	TRYAS("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
	TRYAS("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, "", 0));
	/* without the magic number: if it got through, nothing would happen */
	TRYAS("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
	TRYAS("settimeofday", settimeofday(&tv, 0));
	TRYAS("clock_settime", clock_settime(CLOCK_REALTIME, &ts));
	TRYAS("adjtimex", syscall(SYS_adjtimex, &tx));
	TRYAS("clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tx));
	TRYAS("sethostname", sethostname("evil", 4));
	TRYAS("setdomainname", setdomainname("evil", 4));
	TRYAS("syslog", syscall(SYS_syslog, 3, log, sizeof log));
	TRYAS("acct", syscall(SYS_acct, "/workspace/acct"));
	TRYAS("vhangup", vhangup());
#ifdef SYS_iopl
	TRYAS("iopl", syscall(SYS_iopl, 3));
	TRYAS("ioperm", syscall(SYS_ioperm, 0x70, 2, 1));
#endif
	return 0;
}
