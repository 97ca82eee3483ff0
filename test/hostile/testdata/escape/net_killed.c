/* A15: processes that are killed while the supervisor answers their call; source: bst #113, omegajail #69 */
#include "escape.h"
#include <sys/socket.h>

int main(void)
{
	for (int i = 0; i < 300; i++) {
		pid_t child = fork();
		if (child < 0)
			return 2;
		if (child == 0)
			for (;;)
				socket(AF_PACKET, SOCK_RAW, 0);
		usleep(i * 5); /* another point of the conversation each time */
		kill(child, SIGKILL);
		if (waitpid(child, 0, 0) != child)
			return 3;
	}
	TRYAS("after 300 of them", socket(AF_PACKET, SOCK_RAW, 0));
	return 0;
}
