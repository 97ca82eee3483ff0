/* A49 B4: a static 32-bit program, which opens a socket by socketcall; source: moby's reverted socketcall block; cc: -m32 -nostdlib -static -no-pie */
static int call(int nr, int a, int b)
{
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(a), "c"(b) : "memory");
	return result;
}

void _start(void)
{
	int socket[3] = { 2, 1, 0 }; /* AF_INET, SOCK_STREAM */
	call(1, call(102, 1, (int)socket) >= 0 ? 0 : 1, 0); /* socketcall, exit */
	for (;;)
		;
}
