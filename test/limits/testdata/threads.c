/* B37: threads until no more can be had; each stays. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *stay(void *arg)
{
	pause();
	return arg;
}

int main(void)
{
	pthread_attr_t small;
	pthread_t t;
	int n = 0, err;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	while ((err = pthread_create(&t, &small, stay, 0)) == 0)
		n++;
	printf("%d %s\n", n, strerrorname_np(err));
	return 1;
}
