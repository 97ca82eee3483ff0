/* B89: a library preloaded by variable or by file, a shell that is not one: says what it may do where it runs; source: own; cc: -shared -fPIC */
#include "escape.h"

__attribute__((constructor)) static void loaded(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "CapEff", 6) || !strncmp(line, "CapBnd", 6) || !strncmp(line, "Seccomp:", 8) || !strncmp(line, "NoNewPrivs", 10))
			fprintf(stderr, "preloaded, %s", line);
	if (f)
		fclose(f);
}
