/*
 * The libraries a program would be started with: it, its loader, and what they need, found as
 * the dynamic loader finds them: DT_RPATH or DT_RUNPATH, LD_LIBRARY_PATH, its cache, the usual
 * directories. What a program opens while it runs is not known, nor are the directories that
 * are picked by the processor's abilities. Nothing is started.
 *
 * Owner: whoever declares it; collect_needed_free(). Errors: no memory; what cannot be read
 * needs nothing. Facts: ld.so(8), glibc's dl-cache.h.
 */
#ifndef MALLOGRAPH_COLLECT_NEEDED_H
#define MALLOGRAPH_COLLECT_NEEDED_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vector.h"

struct collect_library {
	char *name;       /* what it is asked for by */
	char *path;       /* in the sysroot, without that; NULL = not found */
	const char *from; /* path of what needs it; NULL = the program itself */
};

struct collect_needed {
	VECTOR(struct collect_library) list; /* the program first */
};

/* program: a path in the sysroot; sysroot "" = here. */
struct error *collect_needed(const char *program, const char *sysroot,
			     struct collect_needed *ret) ERROR_MUST_CHECK;
void collect_needed_free(struct collect_needed *needed);

#endif
