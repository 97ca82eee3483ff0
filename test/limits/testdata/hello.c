/* A70: a program that is run the moment it was written. */
#include <stdio.h>

int main(void)
{
	return puts("fresh") < 0;
}
