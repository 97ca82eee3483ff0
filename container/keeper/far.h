/* What the two files of the far side share: the system calls, the kernel's
 * structures, and the functions of far.c. See keeper.c for the rules. */
#ifndef ISOLATE_FAR_H
#define ISOLATE_FAR_H

#include "keeper.h"

#pragma GCC optimize("Os", "no-jump-tables", "no-tree-switch-conversion", \
		     "no-tree-loop-distribute-patterns", "no-stack-protector", \
		     "no-tree-vectorize", "omit-frame-pointer", \
		     "no-asynchronous-unwind-tables")

#define SHARED __attribute__((section("isolate_keeper"), noinline, visibility("hidden")))
#define FAR static __attribute__((section("isolate_keeper"), noinline))
#define NEAR static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define NR_ioctl 16
#define NR_sendmsg 46
#define NR_recvmsg 47
#define NR_clone 56
#define NR_wait4 61
#define NR_kill 62
#define NR_close 3
#define NR_mmap 9
#define NR_munmap 11
#define NR_rt_sigaction 13
#define NR_rt_sigprocmask 14
#define NR_prctl 157
#define NR_exit_group 231
#define NR_ppoll 271
#define NR_signalfd4 289
#define NR_read 0
#define NR_clone3 435
NEAR s64 sys6(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	s64 ret;
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
#define NR_ioctl 29
#define NR_sendmsg 211
#define NR_recvmsg 212
#define NR_clone 220
#define NR_wait4 260
#define NR_kill 129
#define NR_close 57
#define NR_mmap 222
#define NR_munmap 215
#define NR_rt_sigaction 134
#define NR_rt_sigprocmask 135
#define NR_prctl 167
#define NR_exit_group 94
#define NR_ppoll 73
#define NR_signalfd4 74
#define NR_read 63
#define NR_clone3 435
NEAR s64 sys6(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register s64 x8 __asm__("x8") = nr;
	register s64 x0 __asm__("x0") = a;
	register u64 x1 __asm__("x1") = b;
	register u64 x2 __asm__("x2") = c;
	register u64 x3 __asm__("x3") = d;
	register u64 x4 __asm__("x4") = e;
	register u64 x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "isolate has no keeper for this processor"
#endif

#define sys(nr, a, b, c, d) sys6(nr, (u64)(a), (u64)(b), (u64)(c), (u64)(d), 0, 0)

enum { EPERM = 1, ENOENT = 2, EINTR = 4, ECHILD = 10, EAGAIN = 11, EACCES = 13, ENOTDIR = 20, ETXTBSY = 26, EPIPE = 32, ENOSYS = 38,
       SIGKILL = 9, SIGCHLD = 17, WNOHANG = 1, SOL_SOCKET = 1, SCM_RIGHTS = 1,
       MSG_NOSIGNAL = 0x4000, MSG_CMSG_CLOEXEC = 0x40000000,
       PR_SET_DUMPABLE = 4, PR_SET_PDEATHSIG = 1, CONTROL_FD = 3 };

struct iovec { void *base; u64 len; };
struct msghdr { void *name; u64 namelen; struct iovec *iov; u64 iovlen; void *control; u64 controllen; u64 flags; };
struct cmsg { u64 len; s32 level, type; s32 fd[MAX_FDS]; };
struct pollfd { s32 fd; short events, revents; };
struct sigact { u64 handler, flags, restorer, mask; };
struct rusage { s64 utime_s, utime_us, stime_s, stime_us, rest[14]; };
struct clone3 { u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup; };

/* machine is what one process of the far side knows. It lives on the stack. */
struct machine {
	struct msg *m;     /* the message being served */
	u8 *buf;           /* MSG_CAP bytes that messages are read into */
	u8 *bufs;          /* two of that size: the other one is the seat's, for what it is to do again */
	struct msg *again; /* the seat's last MSG_SANDBOX, there; 0 if none can be done again */
	s32 fds[MAX_FDS];  /* descriptors that came with it */
	s32 nfds;
	s32 report;        /* socket for failures of a tape */
	u64 big;           /* bytes of a mapping that m is in; 0 if m is in buf */
	struct warm *warm; /* the program that this code runs in; 0 if it runs alone */
	u64 regs[MAX_REGS];
};

/* far.c */
void far_exit(s32 code) __attribute__((noreturn));
void far_close_all(struct machine *k);
void far_send(s32 sock, struct rep *r, s32 fd);
void far_answer(s32 sock, u32 kind, s64 a, s64 b, s32 fd);
s32 far_recv(struct machine *k, s32 sock);
s32 far_tape(struct machine *k);

#endif
