/* A50: a second filter, and the other doors of prctl; source: filters that answer in the record's stead */
#include "escape.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(void)
{
	struct sock_filter allow = { 0x06, 0, 0, 0x7fff0000 };
	struct sock_fprog f = { 1, &allow };
	TRYAS("seccomp filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f));
	TRYAS("seccomp filter with a listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 8, &f));
	TRYAS("seccomp strict mode", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0));
	TRYAS("filter by prctl", prctl(PR_SET_SECCOMP, 2, &f));
	TRYAS("filter by prctl with an upper half", syscall(SYS_prctl, PR_SET_SECCOMP | HIGH, 2, &f));
	TRYAS("PR_SET_MM", prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 0, 0));
	TRYAS("PR_SET_PTRACER", prctl(PR_SET_PTRACER, 1, 0, 0, 0));
	TRYAS("PR_SCHED_CORE", prctl(62, 0, 0, 0, 0));
	TRYAS("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	TRYAS("PR_SET_SECUREBITS", prctl(PR_SET_SECUREBITS, 1, 0, 0, 0));
	TRYAS("PR_CAP_AMBIENT_RAISE", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
	TRYAS("PR_SET_SYSCALL_USER_DISPATCH", prctl(59, 1, 0, 0, 0));
	TRYAS("PR_SET_IO_FLUSHER", prctl(57, 1, 0, 0, 0));
	TRYAS("PR_SET_NO_NEW_PRIVS off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return 0;
}
