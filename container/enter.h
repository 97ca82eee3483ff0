/* What start.go and enter.c agree on: the descriptors of a process that is to
 * become a keeper, and the variable that tells it so. */
#ifndef ISOLATE_ENTER_H
#define ISOLATE_ENTER_H

#define ENTER_VARIABLE "_ISOLATE_ENTER"

enum {
	IMAGE_FD = 4, /* 3 is the control socket, as the keeper expects it */
	INIT_FD = 5,
	LOG_FD = 6,
};

#endif
