/* The protocol between the supervisor (Go) and the far side (C): message
 * kinds, message layout, tape layout. doc.go explains the ladder; this file is
 * the one place where the numbers stand. */
#ifndef ISOLATE_KEEPER_H
#define ISOLATE_KEEPER_H

typedef unsigned long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef long s64;
typedef int s32;

enum {
	/* supervisor -> keeper or seat */
	MSG_TAPE = 1, /* run the tape here; answered by REP_DONE or REP_FAIL */
	/* supervisor -> keeper */
	MSG_SEAT = 2, /* fork a seat that runs the tape, then serves descriptor 0; a template takes it, too */
	MSG_TEMPLATE = 6, /* fork process number arg[0], which runs the tape */
	/* supervisor -> seat */
	MSG_SANDBOX = 3, /* clone a sandbox init that runs the tape */
	/* supervisor -> init */
	MSG_SPAWN = 4,  /* fork a program that runs the tape; arg[0] = run id */
	MSG_SIGNAL = 5, /* arg[0] = run id or 0 for all, arg[1] = signal */

	/* answers */
	REP_DONE = 64,   /* a tape ran to its end */
	REP_FAIL = 65,   /* a = operation index (or -1), b = errno or got value */
	REP_CLONED = 66, /* a = pid as the keeper sees it; carries a pidfd */
	REP_READY = 67,  /* sent by a tape; may carry a descriptor */
	REP_EXIT = 68,   /* a = run id, b = wait status, c = user µs, d = system µs */

	/* message flags */
	FLAG_BIG = 1,     /* descriptor 0 is a memfd of arg[3] bytes: the real message */
	FLAG_CGROUP = 2,  /* the last descriptor is the cgroup to be born into */
	FLAG_ONESHOT = 4, /* the init ends with its first program */
	FLAG_AGAIN = 8,   /* the rest is that of the seat's last MSG_SANDBOX without it */

	/* operations that are not system calls */
	OP_SEND = 0x10000,   /* (socket, report kind, fd or -1) */
	OP_WAIT = 0x10001,   /* (socket): one message must come, end of file exits */
	OP_MEMEQ = 0x10002,  /* (p, q, n): bytes must be equal */
	OP_REPORT = 0x10003, /* (socket): later failures are reported there */
	OP_NOTFOUND = 0x10004, /* fail with the best errno of the EXEC operations */
	OP_BECOME = 0x10005, /* (p, n): last in the tape of a template's program */
	OP_NEXT = 0x10006, /* (socket): the tape ends; the next message's goes on, end of file exits */

	/* operation flags */
	OPF_IGNORE = 1, /* any error is ignored */
	OPF_EXPECT = 2, /* the result must equal .expect */
	OPF_ERRNO = 4,  /* the error .expect is ignored */
	OPF_EXEC = 8,   /* an error is remembered for OP_NOTFOUND */

	MAX_FDS = 16,
	MAX_REGS = 32,
	MAX_RUNS = 64,
	MSG_CAP = 192 << 10, /* below the default net.core.wmem_max of 212992 */
};

struct msg {
	u32 kind, flags, len, nops, nreloc, data, pad[2];
	u64 arg[4];
	/* nops * struct op, nreloc * u32, and at data what pointers lead to. A
	 * pointer is written as an offset there. Those of the operations are marked;
	 * those within the data stand where the u32 say, as offsets there, too. */
};

struct op {
	u32 nr;
	u8 regs;  /* bit i: argument i names a register */
	u8 flags;
	u8 store; /* register number + 1 of the result; 0 = none */
	u8 ptrs;  /* bit i: argument i is a pointer */
	s64 expect;
	u64 a[6];
};

struct rep {
	u32 kind, pad;
	s64 a, b, c, d;
};

/* What a template and this code tell each other. template.py has it as an array
 * of numbers in the same order. */
struct warm {
	s64 (*fork)(void); /* libc's */
	u64 text, length;  /* what OP_BECOME was given */
	u64 buffer;        /* 2 * MSG_CAP bytes that the program may unmap */
	u64 message, big;  /* and what else it may, if big is not 0 */
};

extern const u8 isolate_keeper_entry[];
void isolate_keeper_warm(struct warm *);

#endif
