/*
 * The most of what was there at one time: intervals that have a weight. Owner: the caller.
 * Any unit of time; weights are summed without overflow, and the result is capped.
 */
#ifndef MALLOGRAPH_BASE_OVERLAP_H
#define MALLOGRAPH_BASE_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* From start on until just before end; nothing where end is not after start. */
struct overlap {
	uint64_t start;
	uint64_t end;
	uint64_t weight;
};

struct error *overlap_most(const struct overlap *items, size_t count,
			   uint64_t *ret) ERROR_MUST_CHECK;

#endif
