/* What the scripts of this directory share: each attempt prints one line,
 * "what was tried: ok" or "what was tried: ERRNO". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((unused)) static const char *errname(int e)
{
	static char number[16];
	static const struct { int e; const char *name; } names[] = {
#define E(x) { x, #x }
		E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(ENOEXEC),
		E(EBADF), E(ECHILD), E(EAGAIN), E(ENOMEM), E(EACCES), E(EFAULT), E(EBUSY),
		E(EEXIST), E(EXDEV), E(ENODEV), E(ENOTDIR), E(EISDIR), E(EINVAL), E(ENFILE),
		E(EMFILE), E(ENOTTY), E(ETXTBSY), E(EFBIG), E(ENOSPC), E(ESPIPE), E(EROFS),
		E(EMLINK), E(EPIPE), E(ENOSYS), E(ELOOP), E(EOVERFLOW), E(ENOTSOCK),
		E(EDESTADDRREQ), E(EMSGSIZE), E(EPROTOTYPE), E(ENOPROTOOPT), E(EPROTONOSUPPORT),
		E(ESOCKTNOSUPPORT), E(EOPNOTSUPP), E(EAFNOSUPPORT), E(EADDRINUSE),
		E(EADDRNOTAVAIL), E(ENETDOWN), E(ENETUNREACH), E(ECONNRESET), E(ENOTCONN),
		E(ETIMEDOUT), E(ECONNREFUSED), E(EHOSTUNREACH), E(EINPROGRESS), E(EUCLEAN),
#undef E
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].e == e)
			return names[i].name;
	snprintf(number, sizeof number, "errno-%d", e);
	return number;
}

/* say reports an attempt by its result: negative is errno. */
__attribute__((unused)) static void say(const char *attempt, long r)
{
	printf("%s: %s\n", attempt, r < 0 ? errname(errno) : "ok");
	fflush(stdout);
}

/* TRY reports an expression under its own text, TRYAS under another. */
#define TRYAS(text, x)               \
	do {                         \
		errno = 0;           \
		long r_ = (long)(x); \
		say(text, r_);       \
	} while (0)
#define TRY(x) TRYAS(#x, x)

/* bit is a flag that the kernel does not look at in an int argument. */
#define HIGH (1UL << 40)
