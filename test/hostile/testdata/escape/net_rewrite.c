/* A17: another thread rewrites the address while connect waits for the supervisor; source: sandlock #27 */
#include "escape.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

static struct sockaddr_in address;
static volatile int over;

static void *rewrite(void *arg)
{
	while (!over) {
		address.sin_addr.s_addr = htonl(0x7f000001);
		__sync_synchronize();
		address.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1: the host listens there */
		__sync_synchronize();
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;
	int reached = 0, loopback = 0, unreachable = 0, other = 0;
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(argv[argc - 1]));
	pthread_create(&t, 0, rewrite, 0);
	for (int i = 0; i < 5000; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (void *)&address, sizeof address) == 0)
			reached++;
		else if (errno == ECONNREFUSED)
			loopback++; /* nobody listens inside */
		else if (errno == ENETUNREACH)
			unreachable++;
		else
			other++;
		close(fd);
	}
	over = 1;
	pthread_join(t, 0);
	printf("reached: %d\nother answers: %d\n", reached, other);
	printf("both answers came: %s\n", loopback && unreachable ? "yes" : "no");
	return 0;
}
