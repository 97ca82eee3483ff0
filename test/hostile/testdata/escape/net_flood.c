/* A14 B9: refused calls from fifty threads, a number of them or without end; source: nsjail #290 */
#include "escape.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

static long each;
static struct sockaddr_in outside;

static void *flood(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	for (long i = 0; each == 0 || i < each; i++) {
		if (i % 2)
			connect(fd, (void *)&outside, sizeof outside);
		else
			socket(AF_PACKET, SOCK_RAW, 0);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t[50];
	each = argc > 1 ? atol(argv[1]) : 0;
	outside.sin_family = AF_INET;
	outside.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
	outside.sin_port = htons(80);
	for (int i = 0; i < 50; i++)
		if (pthread_create(&t[i], 0, flood, 0))
			return 2;
	for (int i = 0; i < 50; i++)
		pthread_join(t[i], 0);
	printf("refused calls: %ld\n", 50 * each);
	return 0;
}
