/* B11 B12: always has a call that waits for the supervisor's answer */
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
	puts("begun");
	fflush(stdout);
	for (;;)
		socket(AF_PACKET, SOCK_RAW, 0);
}
