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
#include "far.h"

#if defined(__x86_64__)
__asm__(".pushsection isolate_keeper,\"ax\",@progbits\n"
	".globl isolate_keeper_entry\n.hidden isolate_keeper_entry\n"
	"isolate_keeper_entry:\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call isolate_keeper_main\n"
	"	hlt\n"
	".popsection\n");
#else
__asm__(".pushsection isolate_keeper,\"ax\",@progbits\n"
	".globl isolate_keeper_entry\n.hidden isolate_keeper_entry\n"
	"isolate_keeper_entry:\n"
	"	mov x29, #0\n"
	"	mov x30, #0\n"
	"	bl isolate_keeper_main\n"
	"	brk #0\n"
	".popsection\n");
#endif

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
 * since orphans become children of PID 1. Mostly none is, and then nobody is
 * killed: the kernel would look at every process of the host for that. */
FAR void far_finish(s32 active)
{
	if (active || sys(NR_wait4, -1, 0, WNOHANG | 0x40000000 /* __WALL */, 0) == -ECHILD)
		return;
	sys(NR_kill, -1, SIGKILL, 0, 0);
	for (;;) {
		s64 r = sys(NR_wait4, -1, 0, 0x40000000, 0);
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

/* far_keep lets a sandbox that is like the last one be ordered without its tape:
 * that stays in the buffer where it is, and further messages go to the other. */
FAR void far_keep(struct machine *k)
{
	if (k->m->flags & FLAG_AGAIN) {
		if (!k->again)
			far_exit(6);
		k->m = k->again;
		return;
	}
	k->again = 0;
	if (k->big)
		return;
	k->again = k->m;
	k->buf = k->buf == k->bufs ? k->bufs + MSG_CAP : k->bufs;
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
			far_keep(k);
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
	s64 p = sys6(NR_mmap, 0, 2 * MSG_CAP, 3, 0x22 /* PRIVATE ANONYMOUS */, (u64)-1, 0);
	if (p < 0 && p > -4096)
		far_exit(3);
	k->buf = k->bufs = (u8 *)p;
	k->again = 0;
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
	w->buffer = (u64)k.bufs;
}

extern const u8 __start_isolate_keeper[] __attribute__((visibility("hidden")));
extern const u8 __stop_isolate_keeper[] __attribute__((visibility("hidden")));

const u8 *isolate_keeper_begin(void) { return __start_isolate_keeper; }
const u8 *isolate_keeper_end(void) { return __stop_isolate_keeper; }
