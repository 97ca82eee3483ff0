/* What early.c begins and early.go takes over. */
#ifndef ISOLATE_EARLY_H
#define ISOLATE_EARLY_H

#include <stddef.h>

struct early {
	int pid; /* 0: there is none */
	int control, call, words; /* our ends, as in Waiting and newcomer */
	size_t size;
	unsigned char told[256]; /* what nsexec was told */
};

/* The configuration of nsexec for a caller with these ids, to be held against
 * bootstrap's. */
void early_words(struct early *e, unsigned uid, unsigned gid);

/* Begins a process; for the time before the Go run time. */
void isolate_early_begin(void);

/* What was begun; the caller owns its descriptors. */
struct early early_take(void);

#endif
