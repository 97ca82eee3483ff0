/* What start.go, enter.c and early.c agree on: the descriptors of a process that
 * is to become a keeper, the variable that tells it so, and what nsexec reads. */
#ifndef ISOLATE_ENTER_H
#define ISOLATE_ENTER_H

#define ENTER_VARIABLE "_ISOLATE_ENTER"

enum {
	CONTROL_FD = 3, /* as the keeper expects it */
	IMAGE_FD = 4,
	INIT_FD = 5,
	LOG_FD = 6,
};

/* libcontainer/message_linux.go */
enum {
	INIT_MSG = 62000,
	CLONE_FLAGS_ATTR = 27281,
	UID_MAP_ATTR = 27283,
	GID_MAP_ATTR = 27284,
	SETGROUP_ATTR = 27285,
	ROOTLESS_EUID_ATTR = 27287,
};

/* Root's cells are this user; namespaces.Choose. */
#define DROPPED_ID 2000000111u

/* A process with its descriptors, all but the image, becomes a keeper: it makes
 * the namespaces it has been told of, and waits for the image. */
_Noreturn void enter_ahead(void);

#endif
