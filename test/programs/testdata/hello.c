/* A79, A82: compiled inside and run from the workspace; a thread and the C library. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static void *work(void *p)
{
	*(double *)p = sqrt(*(double *)p);
	return NULL;
}

int main(void)
{
	double x = 1764;
	pthread_t t;
	if (pthread_create(&t, NULL, work, &x) || pthread_join(t, NULL))
		return 1;
	printf("C %.0f\n", x);
	return 0;
}
