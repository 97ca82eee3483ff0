/* A47: clone3 is absent, so that the C library falls back and a thread starts; source: moby #42680 */
#include "escape.h"
#include <pthread.h>

static void *run(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t t;
	TRYAS("clone3", syscall(435, 0, 0));
	errno = pthread_create(&t, 0, run, 0);
	say("thread", errno ? -1 : 0);
	return pthread_join(t, 0);
}
