/* light.c: continues as a process whose executable is a few KiB. */
#ifndef ISOLATE_LIGHT_H
#define ISOLATE_LIGHT_H

/* Returns if that is not possible here; then nothing has changed. */
void isolate_light(char **argv);

#endif
