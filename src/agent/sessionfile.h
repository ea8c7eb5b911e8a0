/*
 * Finding or making the session file: the one time the agent opens descriptors.
 *
 * Called once a process image, before the program's own code as a rule, and never again:
 * a child of fork inherits the mapping. Every descriptor is closed before return.
 */
#ifndef MALLOGRAPH_AGENT_SESSIONFILE_H
#define MALLOGRAPH_AGENT_SESSIONFILE_H

#include "agent/agent.h"

/* Units that are mapped while the file is open, so that a small program needs no mremap. */
#define SESSIONFILE_UNITS 2u

/* The mapped head (MGL_HEAD_BYTES) of the session that the environment names, or of a file
 * of our own; *file_bytes is its size, *units are the first units, NULL = without. NULL:
 * record nothing. */
struct mgl_session *sessionfile_open(uint64_t *file_bytes, uint8_t **units);

/* Path of the file, for children after an exec; "" where it has none. */
const char *sessionfile_path(void);

/* /proc/self/stat's start time in clock ticks; 0 = not known. */
uint64_t sessionfile_starttime(void);
/* How many threads the process has; 0 = not known. */
uint64_t sessionfile_threads(void);

#endif
