/* The far side of the clone: keeper, seat, init and program, one after the
 * other. See doc.go for the ladder.
 *
 * Everything here lies in one section, refers to nothing outside it, has no
 * data and allocates nothing: image.go copies the section into an ELF file of
 * a few KiB that needs neither libc nor loader, so it starts in any root file
 * system and a fork of it copies almost no pages. For that reason:
 *   - no string literals, no static data, no switch (it may become a table);
 *   - no calls to libc, and nothing that a compiler turns into one;
 *   - what to do comes as a tape: system calls with their arguments, written
 *     by the supervisor. The tape is trusted as much as the supervisor is;
 *     no byte from inside a sandbox is ever read here.
 */
#include "keeper.h"

#pragma GCC optimize("Os", "no-jump-tables", "no-tree-switch-conversion", \
		     "no-tree-loop-distribute-patterns", "no-stack-protector", \
		     "no-tree-vectorize", "omit-frame-pointer", \
		     "no-asynchronous-unwind-tables")

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
__asm__(".pushsection isolate_keeper,\"ax\",@progbits\n"
	".globl isolate_keeper_entry\n.hidden isolate_keeper_entry\n"
	"isolate_keeper_entry:\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call isolate_keeper_main\n"
	"	hlt\n"
	".popsection\n");
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
__asm__(".pushsection isolate_keeper,\"ax\",@progbits\n"
	".globl isolate_keeper_entry\n.hidden isolate_keeper_entry\n"
	"isolate_keeper_entry:\n"
	"	mov x29, #0\n"
	"	mov x30, #0\n"
	"	bl isolate_keeper_main\n"
	"	brk #0\n"
	".popsection\n");
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
	s32 fds[MAX_FDS];  /* descriptors that came with it */
	s32 nfds;
	s32 report;        /* socket for failures of a tape */
	u64 big;           /* bytes of a mapping that m is in; 0 if m is in buf */
	struct warm *warm; /* the program that this code runs in; 0 if it runs alone */
	u64 regs[MAX_REGS];
};

FAR void far_exit(s32 code)
{
	for (;;)
		sys(NR_exit_group, code, 0, 0, 0);
}

FAR void far_close_all(struct machine *k)
{
	for (s32 i = 0; i < k->nfds; i++)
		sys(NR_close, k->fds[i], 0, 0, 0);
	k->nfds = 0;
}

/* far_send sends a report; fd < 0 sends none. */
FAR void far_send(s32 sock, struct rep *r, s32 fd)
{
	struct iovec iov;
	struct msghdr h;
	struct { u64 len; s32 level, type; s32 fd, pad; } c;
	iov.base = r;
	iov.len = sizeof *r;
	h.name = 0;
	h.namelen = 0;
	h.iov = &iov;
	h.iovlen = 1;
	h.control = 0;
	h.controllen = 0;
	h.flags = 0;
	if (fd >= 0) {
		c.len = 20;
		c.level = SOL_SOCKET;
		c.type = SCM_RIGHTS;
		c.fd = fd;
		c.pad = 0;
		h.control = &c;
		h.controllen = sizeof c;
	}
	s64 n;
	do
		n = sys(NR_sendmsg, sock, &h, MSG_NOSIGNAL, 0);
	while (n == -EINTR);
	/* Without its answer the supervisor would wait; our end tells it more.
	 * EPIPE is the supervisor's own end, which the next receive notices. */
	if (n < 0 && n != -EPIPE)
		far_exit(5);
}

FAR void far_answer(s32 sock, u32 kind, s64 a, s64 b, s32 fd)
{
	struct rep r;
	r.kind = kind;
	r.pad = 0;
	r.a = a;
	r.b = b;
	r.c = 0;
	r.d = 0;
	far_send(sock, &r, fd);
}

/* far_recv reads one message into k. It returns 0 at end of file and does not
 * return other errors: a far side that cannot hear its supervisor must end. */
FAR s32 far_recv(struct machine *k, s32 sock)
{
	struct iovec iov;
	struct msghdr h;
	struct cmsg c;
	s64 n;
	if (k->big)
		sys(NR_munmap, k->m, k->big, 0, 0);
	k->big = 0;
	iov.base = k->buf;
	iov.len = MSG_CAP;
	h.name = 0;
	h.namelen = 0;
	h.iov = &iov;
	h.iovlen = 1;
	h.flags = 0;
	do {
		h.control = &c;
		h.controllen = sizeof c;
		n = sys(NR_recvmsg, sock, &h, MSG_CMSG_CLOEXEC, 0);
	} while (n == -EINTR);
	if (n <= 0)
		return 0;
	k->nfds = 0;
	if (h.controllen >= 16 && c.level == SOL_SOCKET && c.type == SCM_RIGHTS) {
		k->nfds = (s32)((c.len - 16) / 4);
		for (s32 i = 0; i < k->nfds && i < MAX_FDS; i++)
			k->fds[i] = c.fd[i];
	}
	k->m = (struct msg *)k->buf;
	if (k->m->flags & FLAG_BIG) {
		k->big = k->m->arg[3];
		s64 p = sys6(NR_mmap, 0, k->big, 3 /* RW */, 2 /* PRIVATE */, (u64)k->fds[0], 0);
		if (p < 0 && p > -4096)
			far_exit(3);
		sys(NR_close, k->fds[0], 0, 0, 0);
		k->nfds--;
		for (s32 i = 0; i < k->nfds; i++)
			k->fds[i] = k->fds[i + 1];
		k->m = (struct msg *)p;
	}
	for (s32 i = 0; i < k->nfds; i++)
		k->regs[i] = (u64)k->fds[i];
	return 1;
}

/* far_wait is OP_WAIT: the supervisor's go-ahead. */
FAR s64 far_wait(s32 sock)
{
	struct iovec iov;
	struct msghdr h;
	u64 word[8];
	s64 n;
	iov.base = word;
	iov.len = sizeof word;
	h.name = 0;
	h.namelen = 0;
	h.iov = &iov;
	h.iovlen = 1;
	h.control = 0;
	h.controllen = 0;
	h.flags = 0;
	do
		n = sys(NR_recvmsg, sock, &h, 0, 0);
	while (n == -EINTR);
	if (n <= 0)
		far_exit(4);
	return 0;
}

FAR s64 far_memeq(const u8 *p, const u8 *q, u64 n)
{
	for (u64 i = 0; i < n; i++)
		if (p[i] != q[i])
			return -EPERM;
	return 0;
}

/* far_call is a system call of a tape. Where it executes a program that was
 * just copied in, a process that the supervisor forked meanwhile may still have
 * the file open for writing: descriptors are closed late in execve. */
FAR s64 far_call(struct op *o, u64 *a)
{
	for (u32 tries = 0;; tries++) {
		s64 pause[2] = {0, 1000000};
		s64 r = sys6(o->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (r != -ETXTBSY || !(o->flags & OPF_EXEC) || tries == 20)
			return r;
		sys6(NR_ppoll, 0, 0, (u64)pause, 0, 0, 0);
	}
}

/* far_tape runs the tape of the current message. It returns 1, or 0 after
 * having reported the operation and errno that failed. */
FAR s32 far_tape(struct machine *k)
{
	struct msg *m = k->m;
	struct op *ops = (struct op *)(m + 1);
	u32 *reloc = (u32 *)(ops + m->nops);
	s64 best = -ENOENT;
	for (u32 i = 0; i < m->nreloc; i++)
		*(u64 *)((u8 *)m + reloc[i]) += (u64)m;
	for (u32 i = 0; i < m->nops; i++) {
		struct op *o = &ops[i];
		u64 a[6];
		s64 r;
		for (u32 j = 0; j < 6; j++)
			a[j] = (o->regs >> j) & 1 ? k->regs[o->a[j] & (MAX_REGS - 1)] : o->a[j];
		if (o->nr < OP_SEND) {
			r = far_call(o, a);
		} else if (o->nr == OP_SEND) {
			far_answer((s32)a[0], (u32)a[1], 0, 0, (s32)a[2]);
			r = 0;
		} else if (o->nr == OP_WAIT) {
			r = far_wait((s32)a[0]);
		} else if (o->nr == OP_MEMEQ) {
			r = far_memeq((u8 *)a[0], (u8 *)a[1], a[2]);
		} else if (o->nr == OP_REPORT) {
			k->report = (s32)a[0];
			r = 0;
		} else if (o->nr == OP_NEXT) {
			if (!far_recv(k, (s32)a[0]))
				far_exit(4);
			return far_tape(k);
		} else if (o->nr == OP_BECOME) {
			r = -ENOSYS;
			if (k->warm) {
				k->warm->text = a[0];
				k->warm->length = a[1];
				r = 0;
			}
		} else {
			r = best;
		}
		if (o->store)
			k->regs[(o->store - 1) & (MAX_REGS - 1)] = (u64)r;
		if (o->flags & OPF_EXEC) {
			/* like execvp: a permission problem outranks "not there" */
			if (r != -ENOENT && r != -ENOTDIR && best == -ENOENT)
				best = r;
			continue;
		}
		if (o->flags & OPF_EXPECT) {
			if (r == o->expect)
				continue;
		} else {
			if (r >= 0 || r < -4095 || (o->flags & OPF_IGNORE))
				continue;
			if ((o->flags & OPF_ERRNO) && r == -o->expect)
				continue;
		}
		far_answer(k->report, REP_FAIL, i, -r, -1);
		return 0;
	}
	return 1;
}

/* far_fork forks this process. Inside another program it is that program's own
 * fork, which knows what of libc and of its libraries must be told. */
FAR s64 far_fork(struct machine *k)
{
	if (!k->warm)
		return sys6(NR_clone, SIGCHLD, 0, 0, 0, 0, 0);
	s64 pid = k->warm->fork();
	return pid < 0 ? -EAGAIN : pid;
}

/* ---- program: a child of init; ends in execve, or in OP_BECOME ---- */

/* BECAME is what the functions from here to the template's entry return when
 * this process is no longer one of the far side: they all return at once. */
enum { BECAME = -1 };

FAR s32 far_program(struct machine *k)
{
	k->report = k->fds[0];
	if (!far_tape(k) || !k->warm || !k->warm->text)
		far_exit(127);
	k->warm->big = k->big;
	k->warm->message = (u64)k->m;
	return BECAME;
}

/* ---- init: PID 1 of a sandbox ---- */

struct run { u64 id; s32 pid; };

/* far_finish makes sure that nothing outlives the last program: PID 1 kills
 * every process of its namespace, and wait4's ECHILD proves that none is left,
 * since orphans become children of PID 1. */
FAR void far_finish(s32 active)
{
	if (active)
		return;
	sys(NR_kill, -1, SIGKILL, 0, 0);
	for (;;) {
		s64 r = sys(NR_wait4, -1, 0, 0x40000000 /* __WALL */, 0);
		if (r == -ECHILD)
			return;
	}
}

FAR s32 far_reap(s32 sock, struct run *runs, s32 active, s32 oneshot)
{
	for (;;) {
		struct rusage ru;
		struct rep r;
		s32 status = 0;
		s64 pid = sys(NR_wait4, -1, &status, WNOHANG | 0x40000000, &ru);
		s32 hit = -1;
		if (pid <= 0)
			return active;
		for (s32 i = 0; i < active; i++)
			if (runs[i].pid == pid)
				hit = i;
		if (hit < 0)
			continue;
		r.kind = REP_EXIT;
		r.pad = 0;
		r.a = (s64)runs[hit].id;
		r.b = status;
		r.c = ru.utime_s * 1000000 + ru.utime_us;
		r.d = ru.stime_s * 1000000 + ru.stime_us;
		active--;
		runs[hit].id = runs[active].id;
		runs[hit].pid = runs[active].pid;
		far_finish(active);
		far_send(sock, &r, -1);
		if (oneshot)
			far_exit(0);
	}
}

FAR s32 far_spawn(struct machine *k, s32 sock, struct run *runs, s32 active)
{
	s64 pid;
	if (active == MAX_RUNS) {
		far_answer(sock, REP_FAIL, (s64)k->m->arg[0], EAGAIN, -1);
		return active;
	}
	pid = far_fork(k);
	if (pid == 0)
		return far_program(k);
	if (pid < 0) {
		far_answer(sock, REP_FAIL, (s64)k->m->arg[0], -pid, -1);
		return active;
	}
	runs[active].id = k->m->arg[0];
	runs[active].pid = (s32)pid;
	return active + 1;
}

FAR void far_signal(struct msg *m, struct run *runs, s32 active)
{
	if (m->arg[0] == 0)
		sys(NR_kill, -1, m->arg[1], 0, 0);
	for (s32 i = 0; i < active; i++)
		if (runs[i].id == m->arg[0] && sys(NR_kill, -(s64)runs[i].pid, m->arg[1], 0, 0) < 0)
			sys(NR_kill, runs[i].pid, m->arg[1], 0, 0); /* no session yet */
}

FAR s32 far_init(struct machine *k)
{
	struct run runs[MAX_RUNS];
	struct sigact dfl;
	struct pollfd p[2];
	s32 sock = k->fds[0], active = 0, oneshot = (k->m->flags & FLAG_ONESHOT) != 0;
	u64 chld = 1UL << (SIGCHLD - 1);
	dfl.handler = 0;
	dfl.flags = 0;
	dfl.restorer = 0;
	dfl.mask = 0;
	sys(NR_rt_sigaction, SIGCHLD, &dfl, 0, 8);
	sys(NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &chld, 0, 8);
	/* before the tape, which ends with the filter: strict has no signalfd4 */
	p[1].fd = (s32)sys(NR_signalfd4, -1, &chld, 8, 02000000 | 04000 /* CLOEXEC NONBLOCK */);
	k->report = sock;
	if (!far_tape(k))
		far_exit(1);
	p[0].fd = sock;
	p[0].events = p[1].events = 1;
	for (;;) {
		u8 info[128];
		p[0].revents = p[1].revents = 0;
		if (sys6(NR_ppoll, (u64)p, 2, 0, 0, 8, 0) < 0)
			continue;
		if (p[1].revents) {
			sys(NR_read, p[1].fd, info, sizeof info, 0);
			active = far_reap(sock, runs, active, oneshot);
		}
		if (!p[0].revents)
			continue;
		if (!far_recv(k, sock))
			far_exit(0);
		if (k->m->kind == MSG_SPAWN)
			active = far_spawn(k, sock, runs, active);
		if (active == BECAME)
			return BECAME;
		if (k->m->kind == MSG_SIGNAL)
			far_signal(k->m, runs, active);
		far_close_all(k);
	}
}

/* ---- seat: lives in one cgroup leaf, clones the sandboxes of that leaf ---- */

FAR s32 far_clone_sandbox(struct machine *k, s32 sock)
{
	struct clone3 c;
	s32 pidfd = -1;
	s64 pid;
	u8 *z = (u8 *)&c;
	for (u32 i = 0; i < sizeof c; i++)
		z[i] = 0;
	c.flags = k->m->arg[0] | 0x1000 /* CLONE_PIDFD */;
	c.pidfd = (u64)&pidfd;
	c.exit_signal = SIGCHLD;
	if (k->m->flags & FLAG_CGROUP) {
		c.flags |= 0x200000000UL /* CLONE_INTO_CGROUP */;
		c.cgroup = (u64)k->fds[k->nfds - 1];
	}
	pid = sys(NR_clone3, &c, sizeof c, 0, 0);
	if (pid == -ENOSYS && !(k->m->flags & FLAG_CGROUP))
		/* some outer sandboxes answer clone3 with ENOSYS */
		pid = sys6(NR_clone, c.flags | SIGCHLD, 0, (u64)&pidfd, 0, 0, 0);
	if (pid == 0) {
		sys(NR_close, sock, 0, 0, 0);
		if (k->m->flags & FLAG_CGROUP)
			sys(NR_close, k->fds[--k->nfds], 0, 0, 0);
		return far_init(k);
	}
	if (pid < 0)
		far_answer(sock, REP_FAIL, -1, -pid, -1);
	else
		far_answer(sock, REP_CLONED, pid, 0, pidfd);
	if (pidfd >= 0)
		sys(NR_close, pidfd, 0, 0, 0);
	return 0;
}

FAR s32 far_seat(struct machine *k, s32 sock)
{
	k->report = sock;
	if (!far_tape(k)) /* with the other descriptors it enters its leaf */
		far_exit(1);
	k->fds[0] = k->fds[--k->nfds];
	far_close_all(k);
	far_answer(sock, REP_DONE, 0, 0, -1); /* tells the supervisor our pid */
	while (far_recv(k, sock)) {
		if (k->m->kind == MSG_SANDBOX) {
			if (far_clone_sandbox(k, sock) == BECAME)
				return BECAME;
		} else if (k->m->kind == MSG_TAPE && far_tape(k)) {
			far_answer(sock, REP_DONE, 0, 0, -1);
		}
		far_close_all(k);
	}
	far_exit(0);
}

/* ---- keeper: PID 1 of a cell; and the template, which serves as it does ---- */

/* far_template makes a process of the keeper's that executes an interpreter. It
 * gets the process id that the supervisor names: one that no program has. */
FAR s64 far_template(struct machine *k)
{
	struct clone3 c;
	s32 id = (s32)k->m->arg[0];
	u8 *z = (u8 *)&c;
	for (u32 i = 0; i < sizeof c; i++)
		z[i] = 0;
	c.exit_signal = SIGCHLD;
	c.set_tid = (u64)&id;
	c.set_tid_size = 1;
	if (k->m->flags & FLAG_CGROUP) {
		c.flags = 0x200000000UL /* CLONE_INTO_CGROUP */;
		c.cgroup = (u64)k->fds[k->nfds - 1];
	}
	s64 pid = sys(NR_clone3, &c, sizeof c, 0, 0);
	if (pid == 0) {
		sys(NR_close, CONTROL_FD, 0, 0, 0);
		k->report = k->fds[0];
		far_tape(k);
		far_exit(127);
	}
	return pid;
}

/* far_serve is the life of the keeper, and of a template. */
FAR s32 far_serve(struct machine *k, s32 sock)
{
	struct sigact act;
	sys(NR_prctl, PR_SET_DUMPABLE, 0, 0, 0);
	/* children are not waited for: ignoring SIGCHLD lets the kernel reap */
	act.handler = 1;
	act.flags = 0;
	act.restorer = 0;
	act.mask = 0;
	sys(NR_rt_sigaction, SIGCHLD, &act, 0, 8);
	s64 p = sys6(NR_mmap, 0, MSG_CAP, 3, 0x22 /* PRIVATE ANONYMOUS */, (u64)-1, 0);
	if (p < 0 && p > -4096)
		far_exit(3);
	k->buf = (u8 *)p;
	k->nfds = 0;
	k->big = 0;
	k->report = sock;
	while (far_recv(k, sock)) {
		s64 pid = 0;
		if (k->m->kind == MSG_TAPE) {
			if (far_tape(k))
				far_answer(sock, REP_DONE, 0, 0, -1);
		} else if (k->m->kind == MSG_SEAT) {
			pid = far_fork(k);
			if (pid == 0) {
				sys(NR_close, sock, 0, 0, 0);
				return far_seat(k, k->fds[0]);
			}
		} else if (k->m->kind == MSG_TEMPLATE) {
			pid = far_template(k);
		}
		if (pid < 0)
			far_answer(sock, REP_FAIL, -1, -pid, -1);
		else if (pid > 0)
			far_answer(sock, REP_DONE, pid, 0, -1);
		far_close_all(k);
	}
	far_exit(0);
	return 0;
}

__attribute__((section("isolate_keeper"), used, visibility("hidden"))) void isolate_keeper_main(void)
{
	struct machine k;
	struct sigact act;
	/* a caller's ignored signals must not reach a program */
	act.flags = 0;
	act.restorer = 0;
	act.mask = 0;
	act.handler = 0;
	for (s32 i = 1; i <= 64; i++)
		sys(NR_rt_sigaction, i, &act, 0, 8);
	sys(NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &act.mask, 0, 8);
	k.warm = 0;
	far_serve(&k, CONTROL_FD);
}

/* isolate_keeper_warm is the entry for a template: an interpreter that has this
 * code mapped calls it with its socket at CONTROL_FD and one thread. It returns
 * in the programs that are forked from it, and in no other process. */
__attribute__((section("isolate_keeper"), used, visibility("hidden"))) void isolate_keeper_warm(struct warm *w)
{
	struct machine k;
	/* The interpreter has handlers, and PID 1 of a sandbox gets signals that it
	 * has handlers for: none may run until the program's tape unblocks them. */
	u64 all = ~0UL;
	sys(NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, 0, 8);
	k.warm = w;
	w->text = 0;
	far_serve(&k, CONTROL_FD);
	w->buffer = (u64)k.buf;
}

extern const u8 __start_isolate_keeper[] __attribute__((visibility("hidden")));
extern const u8 __stop_isolate_keeper[] __attribute__((visibility("hidden")));

const u8 *isolate_keeper_begin(void) { return __start_isolate_keeper; }
const u8 *isolate_keeper_end(void) { return __stop_isolate_keeper; }
