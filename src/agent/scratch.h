/*
 * Memory for one exec or spawn call: its argument and environment arrays, a file's head.
 *
 * Ownership: whoever took it gives it back; a successful exec never does. A vfork child
 * runs in its parent's memory on the parent's thread pointer, so what such a child left
 * taken is known by that pointer with another's pid, and used again: nothing leaks.
 * Threads: any number, lock-free; a handler that interrupts a user gets its own.
 * Errors: memory is NULL where there is no room.
 */
#ifndef MALLOGRAPH_AGENT_SCRATCH_H
#define MALLOGRAPH_AGENT_SCRATCH_H

#include <stddef.h>

struct scratch {
	void *memory;
	size_t bytes;
	int entry; /* −1: a mapping of its own, or nothing */
};

#define SCRATCH_NONE ((struct scratch){NULL, 0, -1})

struct scratch scratch_take(size_t bytes);
void scratch_give(struct scratch *s);

#endif
