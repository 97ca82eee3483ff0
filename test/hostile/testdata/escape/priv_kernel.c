/* A50: helpers of kernel exploits: bpf, perf, userfaultfd, io_uring, keyrings, handles, filters; source: sandlock seccomp tests, isolate 2.4 */
#include "escape.h"
#include <sys/personality.h>

int main(void)
{
	char b[256] = { 0 };
	TRYAS("bpf", syscall(SYS_bpf, 5, b, sizeof b));
	TRYAS("perf_event_open", syscall(SYS_perf_event_open, b, 0, -1, -1, 0));
	TRYAS("userfaultfd", syscall(SYS_userfaultfd, 0));
	TRYAS("userfaultfd, user faults only", syscall(SYS_userfaultfd, 1));
	TRYAS("/dev/userfaultfd", open("/dev/userfaultfd", O_RDWR));
	TRYAS("io_uring_setup", syscall(425, 8, b));
	TRYAS("io_uring_enter", syscall(426, 0, 0, 0, 0, 0, 0));
	TRYAS("io_uring_register", syscall(427, 0, 0, 0, 0));
	TRYAS("add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3));
	TRYAS("request_key", syscall(SYS_request_key, "user", "k", 0, 0));
	TRYAS("keyctl, session keyring", syscall(SYS_keyctl, 0, -3, 0));
	TRYAS("keyctl, join a session by name", syscall(SYS_keyctl, 1, "_ses"));
	TRYAS("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
	TRYAS("lookup_dcookie", syscall(212, 0, b, sizeof b));
	TRYAS("memfd_secret", syscall(447, 0));
	TRYAS("mbind", syscall(SYS_mbind, 0, 0, 0, 0, 0, 0));
	TRYAS("set_mempolicy", syscall(SYS_set_mempolicy, 0, 0, 0));
	TRYAS("remap_file_pages", syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0));
	TRYAS("lsm_list_modules", syscall(461, 0, 0, 0));
#ifdef SYS_modify_ldt
	TRYAS("modify_ldt", syscall(SYS_modify_ldt, 1, b, 16));
#endif
	TRYAS("personality, fixed addresses", personality(ADDR_NO_RANDOMIZE));
	TRYAS("personality, executable data", personality(READ_IMPLIES_EXEC));
	TRYAS("personality, page zero", personality(MMAP_PAGE_ZERO));
	TRYAS("page zero by mmap", mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	return 0;
}
