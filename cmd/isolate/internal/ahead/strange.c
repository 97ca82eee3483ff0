// Variables that are not ours.

#include <stdlib.h>

// The constructor of libcontainer, which is linked in, takes a process with these
// variables for one of its own: it would end the command, or have it wait on a
// descriptor that is something else. They are meant for such a process only when
// the command has started itself to make a cell, which container/enter.c knows by
// the variable that is looked for here. Only the command can take them away: a
// program that uses the library may use libcontainer, too.
__attribute__((constructor(150))) static void forget(void)
{
	if (getenv("_ISOLATE_ENTER"))
		return;
	unsetenv("_LIBCONTAINER_INITPIPE");
	unsetenv("_LIBCONTAINER_LOGPIPE");
	unsetenv("_LIBCONTAINER_LOGLEVEL");
}
