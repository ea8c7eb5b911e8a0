/*
 * Scope guards: a variable declared with one gives up what it holds when it goes out
 * of scope, on every way out. STEAL() hands the thing on and disarms the guard.
 *
 *	CLEANUP_FD int fd = open(...);
 *	CLEANUP_FREE char *name = strdup(...);
 *	...
 *	*ret = STEAL(name);
 *
 * Owners of other types make their own with CLEANUP(type_cleanup), a function that
 * takes a pointer to the variable. errno is kept by every guard here.
 */
#ifndef MALLOGRAPH_BASE_CLEANUP_H
#define MALLOGRAPH_BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(function) __attribute__((cleanup(function)))

#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_FD   CLEANUP(cleanup_fd) /* int, -1 = none */
#define CLEANUP_FILE CLEANUP(cleanup_file)

#define STEAL(pointer)                                \
	({                                            \
		__auto_type steal_value_ = (pointer); \
		(pointer) = NULL;                     \
		steal_value_;                         \
	})

static inline void cleanup_free(void *variable) { free(*(void **)variable); }

static inline void cleanup_fd(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline int cleanup_steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void cleanup_file(FILE **file)
{
	int saved = errno;

	if (*file)
		fclose(*file);
	errno = saved;
}

#endif
