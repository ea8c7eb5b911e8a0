/*
 * Whether a string of a DIE ends where its section does: libdw (0.188) looks only whether it
 * begins there, and past the end of a file is somebody else's memory, or none.
 *
 * Owner: whoever declares it; symbols_bounds_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_BOUNDS_H
#define MALLOGRAPH_SYMBOLS_BOUNDS_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/vector.h"

struct symbols_bounds {
	VECTOR(Dwarf *) files; /* whose sections are known */
	VECTOR(struct symbols_extent {
		const char *start;
		size_t size;
	})
	sections;
};

void symbols_bounds_free(struct symbols_bounds *bounds);

/* *ret NULL = there is no such attribute, it is no string, or it has no end. */
struct error *symbols_bounds_string(struct symbols_bounds *bounds, Dwarf_Die *die, unsigned name,
				    const char **ret) ERROR_MUST_CHECK;

#endif
