/* A50 B29: into other processes, the own child among them; source: CDK check-ptrace, sandlock seccomp tests */
#include "escape.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

static long peek(pid_t pid)
{
	char b[8];
	struct iovec mine = { b, 8 }, theirs = { (void *)peek, 8 };
	return syscall(SYS_process_vm_readv, pid, &mine, 1, &theirs, 1, 0);
}

static long poke(pid_t pid)
{
	char b[8] = "evil";
	struct iovec mine = { b, 8 }, theirs = { (void *)&errno, 8 };
	return syscall(SYS_process_vm_writev, pid, &mine, 1, &theirs, 1, 0);
}

int main(void)
{
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	int init = syscall(SYS_pidfd_open, 1, 0), sibling = syscall(SYS_pidfd_open, child, 0);
	TRYAS("ptrace attach to init", ptrace(PTRACE_ATTACH, 1, 0, 0));
	TRYAS("ptrace seize of init", ptrace(PTRACE_SEIZE, 1, 0, 0));
	TRYAS("ptrace attach to a child", ptrace(PTRACE_ATTACH, child, 0, 0));
	TRYAS("ptrace traceme", ptrace(PTRACE_TRACEME, 0, 0, 0));
	TRYAS("process_vm_readv of init", peek(1));
	TRYAS("process_vm_readv of a child", peek(child));
	TRYAS("process_vm_writev of init", poke(1));
	TRYAS("process_vm_writev of a child", poke(child));
	TRYAS("pidfd_getfd of init", syscall(438, init, 3, 0));
	TRYAS("pidfd_getfd of a child", syscall(438, sibling, 0, 0));
	TRYAS("kcmp with init", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
	TRYAS("process_madvise of init", syscall(440, init, 0, 0, 0, 0));
	TRYAS("move_pages of init", syscall(SYS_move_pages, 1, 0, 0, 0, 0, 0));
	TRYAS("migrate_pages of init", syscall(SYS_migrate_pages, 1, 0, 0, 0));
	kill(child, SIGKILL);
	return 0;
}
