/* A49 B4: the 32-bit table by int 0x80 from a 64-bit program; source: moby's reverted socketcall block, firejail #87 */
int main(int argc, char **argv)
{
	long result;
	/* 20 is getpid; any number would do, the table is what is foreign */
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	return result > 0 ? 0 : 1;
}
