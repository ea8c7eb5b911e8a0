/*
 * The calls of stress: every way to make a block, and every one that fits to give it back.
 */
#ifndef STRESS_CALLS_H
#define STRESS_CALLS_H

#include <new>

#include <malloc.h>
#include <stdlib.h>

extern "C" {
#include "tally.h"

/* Not in every C library: the profiler's own names, or another allocator's, answer. */
extern void free_sized(void *p, size_t size) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t align, size_t size) __attribute__((weak));
extern void cfree(void *p) __attribute__((weak));
}

enum kind {
	MALLOC,
	CALLOC,
	REALLOC,
	REALLOCARRAY,
	MEMALIGN,
	POSIX_MEMALIGN,
	ALIGNED_ALLOC,
	VALLOC,
	PVALLOC,
	LAST_OF_C = PVALLOC,
	NEW,
	NEW_ARRAY,
	NEW_NOTHROW,
	NEW_ARRAY_NOTHROW,
	ALIGNED_NEW,
	ALIGNED_NEW_ARRAY,
	ALIGNED_NEW_NOTHROW,
	ALIGNED_NEW_ARRAY_NOTHROW,
	KINDS,
	PLUGIN
};

[[noreturn]] inline void broken(const char *what)
{
	say_word("broken");
	say_word(what);
	say_end();
	say_flush();
	_exit(70);
}

/* --- making -------------------------------------------------------------------------- */

SITE inline void *make(kind how, size_t align, size_t count, size_t size)
{
	void *p = NULL;
	std::align_val_t aligned{align};

	switch (how) {
	case CALLOC:
		p = calloc(count, size);
		break;
	case REALLOC:
		p = realloc(NULL, size);
		break;
	case REALLOCARRAY:
		p = reallocarray(NULL, count, size);
		break;
	case MEMALIGN:
		p = memalign(align, size);
		break;
	case POSIX_MEMALIGN:
		p = posix_memalign(&p, align, size) == 0 ? p : NULL;
		break;
	case ALIGNED_ALLOC:
		p = aligned_alloc(align, size);
		break;
	case VALLOC:
		p = valloc(size);
		break;
	case PVALLOC:
		p = pvalloc(size);
		break;
	case NEW:
		p = ::operator new(size);
		break;
	case NEW_ARRAY:
		p = ::operator new[](size);
		break;
	case NEW_NOTHROW:
		p = ::operator new(size, std::nothrow);
		break;
	case NEW_ARRAY_NOTHROW:
		p = ::operator new[](size, std::nothrow);
		break;
	case ALIGNED_NEW:
		p = ::operator new(size, aligned);
		break;
	case ALIGNED_NEW_ARRAY:
		p = ::operator new[](size, aligned);
		break;
	case ALIGNED_NEW_NOTHROW:
		p = ::operator new(size, aligned, std::nothrow);
		break;
	case ALIGNED_NEW_ARRAY_NOTHROW:
		p = ::operator new[](size, aligned, std::nothrow);
		break;
	default:
		p = malloc(size);
	}
	KEEP_FRAME();
	return p;
}

inline void *make_or_null(kind how, size_t align, size_t count, size_t size, uint64_t *thrown)
{
	try {
		return make(how, align, count, size);
	} catch (const std::bad_alloc &) {
		++*thrown;
		return NULL;
	}
}

SITE inline void *change(void *old, size_t count, size_t size)
{
	void *p = count == 1 ? realloc(old, size) : reallocarray(old, count, size);

	KEEP_FRAME();
	return p;
}

SITE inline void through_realloc(void *p)
{
	if (realloc(p, 0) != NULL)
		broken("realloc to nothing");
}

/* way chooses among those that fit. */
inline void unmake(void *p, kind how, size_t align, size_t size, bool foreign, uint64_t way)
{
	std::align_val_t aligned{align};

	switch (how) {
	case NEW:
	case NEW_NOTHROW:
		way % 2 ? ::operator delete(p, size) : ::operator delete(p);
		return;
	case NEW_ARRAY:
	case NEW_ARRAY_NOTHROW:
		way % 2 ? ::operator delete[](p, size) : ::operator delete[](p, std::nothrow);
		return;
	case ALIGNED_NEW:
	case ALIGNED_NEW_NOTHROW:
		way % 2 ? ::operator delete(p, size, aligned) : ::operator delete(p, aligned);
		return;
	case ALIGNED_NEW_ARRAY:
	case ALIGNED_NEW_ARRAY_NOTHROW:
		way % 2 ? ::operator delete[](p, size, aligned)
			: ::operator delete[](p, aligned, std::nothrow);
		return;
	default:
		break;
	}
	if (way == 0 && free_sized != NULL && how <= REALLOCARRAY)
		free_sized(p, size);
	else if (way == 1 && free_aligned_sized != NULL && how == ALIGNED_ALLOC)
		free_aligned_sized(p, align, size);
	else if (way == 2 && cfree != NULL && !foreign)
		cfree(p);
	else if (way == 3 && !foreign && how <= LAST_OF_C)
		through_realloc(p);
	else
		free(p);
}

#endif
