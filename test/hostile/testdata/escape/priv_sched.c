/* B34: futex operations with priority inheritance, real-time scheduling; source: CVE-2026-43499, CVE-2014-3153 */
#include "escape.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

static uint32_t word, other;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *plain(void *arg)
{
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	return arg;
}

static void futexes(const char *kind, int flag)
{
	static const struct { const char *name; int op; } ops[] = {
		{ "LOCK_PI", FUTEX_LOCK_PI }, { "LOCK_PI2", 13 }, { "UNLOCK_PI", FUTEX_UNLOCK_PI },
		{ "TRYLOCK_PI", FUTEX_TRYLOCK_PI }, { "WAIT_REQUEUE_PI", FUTEX_WAIT_REQUEUE_PI },
		{ "CMP_REQUEUE_PI", FUTEX_CMP_REQUEUE_PI },
	};
	for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++) {
		char text[64];
		struct timespec soon = { 0, 1000000 };
		snprintf(text, sizeof text, "futex %s%s", ops[i].name, kind);
		TRYAS(text, syscall(SYS_futex, &word, ops[i].op | flag, 1, &soon, &other, 0));
	}
}

int main(void)
{
	struct sched_param one = { 1 };
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t r, d, p; } attr = {
		48, SCHED_DEADLINE, 0, 0, 0, 1000000, 2000000, 2000000 };
	pthread_t t;
	futexes("", 0);
	futexes(", private", FUTEX_PRIVATE_FLAG);
	futexes(", real-time clock", FUTEX_CLOCK_REALTIME);
	TRYAS("futex LOCK_PI with an upper half", syscall(SYS_futex, &word, FUTEX_LOCK_PI | HIGH, 0, 0, 0, 0));
	for (int nr = 454; nr <= 456; nr++) {
		char text[32];
		snprintf(text, sizeof text, "futex2 call %d", nr);
		TRYAS(text, syscall(nr, &word, 0, 0, 0, 0, 0));
	}
	TRYAS("futex_waitv", syscall(449, 0, 0, 0, 0, 0));
	TRYAS("sched_setscheduler FIFO", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &one));
	TRYAS("sched_setparam", syscall(SYS_sched_setparam, 0, &one));
	TRYAS("sched_setattr deadline", syscall(SYS_sched_setattr, 0, &attr, 0));
	TRYAS("a better niceness", setpriority(PRIO_PROCESS, 0, -20));
	errno = pthread_create(&t, 0, plain, 0);
	say("a thread with an ordinary mutex", errno ? -1 : 0);
	return pthread_join(t, 0);
}
