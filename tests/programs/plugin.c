/*
 * A library for reload: built twice, with frames of another size but the same code at the same
 * places, so that a stale unwind rule for one gives a wrong caller in the other.
 */
#include <stdlib.h>

#ifndef PLUGIN_FRAME
#define PLUGIN_FRAME 1024
#endif

void *plugin_make(unsigned long size);

__attribute__((noinline, noclone, used)) static void *PLUGIN_NAME(unsigned long size)
{
	char room[PLUGIN_FRAME];

	__asm__ volatile("" : : "r"(room) : "memory");
	void *p = malloc(size);

	__asm__ volatile("" : : "r"(room) : "memory");
	return p;
}

void *plugin_make(unsigned long size)
{
	void *p = PLUGIN_NAME(size);

	__asm__ volatile("" ::: "memory");
	return p;
}
