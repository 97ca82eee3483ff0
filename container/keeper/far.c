/* What every process of the far side does: it takes messages, runs their tapes
 * and answers. See keeper.c for the rules. */
#include "far.h"

SHARED void far_exit(s32 code)
{
	for (;;)
		sys(NR_exit_group, code, 0, 0, 0);
}

SHARED void far_close_all(struct machine *k)
{
	for (s32 i = 0; i < k->nfds; i++)
		sys(NR_close, k->fds[i], 0, 0, 0);
	k->nfds = 0;
}

/* far_message is a message of one part without descriptors. */
FAR void far_message(struct msghdr *h, struct iovec *iov, void *base, u64 len)
{
	iov->base = base;
	iov->len = len;
	h->name = 0;
	h->namelen = 0;
	h->iov = iov;
	h->iovlen = 1;
	h->control = 0;
	h->controllen = 0;
	h->flags = 0;
}

/* far_send sends a report; fd < 0 sends none. */
SHARED void far_send(s32 sock, struct rep *r, s32 fd)
{
	struct iovec iov;
	struct msghdr h;
	struct { u64 len; s32 level, type; s32 fd, pad; } c;
	far_message(&h, &iov, r, sizeof *r);
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

SHARED void far_answer(s32 sock, u32 kind, s64 a, s64 b, s32 fd)
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
SHARED s32 far_recv(struct machine *k, s32 sock)
{
	struct iovec iov;
	struct msghdr h;
	struct cmsg c;
	s64 n;
	if (k->big)
		sys(NR_munmap, k->m, k->big, 0, 0);
	k->big = 0;
	far_message(&h, &iov, k->buf, MSG_CAP);
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
	far_message(&h, &iov, word, sizeof word);
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
SHARED s32 far_tape(struct machine *k)
{
	struct msg *m = k->m;
	struct op *ops = (struct op *)(m + 1);
	u32 *reloc = (u32 *)(ops + m->nops);
	u8 *data = (u8 *)m + m->data;
	s64 best = -ENOENT;
	for (u32 i = 0; i < m->nreloc; i++)
		*(u64 *)(data + reloc[i]) += (u64)data;
	for (u32 i = 0; i < m->nops; i++) {
		struct op *o = &ops[i];
		u64 a[6];
		s64 r;
		for (u32 j = 0; j < 6; j++) {
			a[j] = (o->regs >> j) & 1 ? k->regs[o->a[j] & (MAX_REGS - 1)] : o->a[j];
			/* not written into the tape: in a page that a fork shares, that
			 * would cost a copy of it */
			if ((o->ptrs >> j) & 1)
				a[j] += (u64)data;
		}
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
