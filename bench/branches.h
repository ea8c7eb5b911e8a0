/*
 * malloc() through one of many stacks: each level is a function that calls the next one
 * from one of eight places, chosen by three bits of path.
 */
#ifndef BENCH_BRANCHES_H
#define BENCH_BRANCHES_H

#include <stdint.h>
#include <stdlib.h>

/* What follows a call differs, so the calls are not merged and none becomes a jump. */
#define BRANCH(place, next)                    \
	case place:                            \
		block = next(path >> 3, size); \
		__asm__ volatile("# " #place); \
		break;

#define LEVEL(name, next)                                                       \
	static __attribute__((noinline)) void *name(uint32_t path, size_t size) \
	{                                                                       \
		void *block = NULL;                                             \
                                                                                \
		switch (path & 7) {                                             \
			BRANCH(0, next)                                         \
			BRANCH(1, next)                                         \
			BRANCH(2, next)                                         \
			BRANCH(3, next)                                         \
			BRANCH(4, next)                                         \
			BRANCH(5, next)                                         \
			BRANCH(6, next)                                         \
			BRANCH(7, next)                                         \
		}                                                               \
		return block;                                                   \
	}

static inline void *branch_end(uint32_t path, size_t size)
{
	(void)path;
	return malloc(size);
}

LEVEL(branch_malloc1, branch_end)
LEVEL(branch_malloc2, branch_malloc1)
LEVEL(branch_malloc3, branch_malloc2)
LEVEL(branch_malloc4, branch_malloc3) /* 4,096 stacks */

#endif
