/*
 * Which of many address ranges contain an address: fill, seal, ask. Ranges may overlap and
 * nest; the innermost comes first, that is the one that starts last, of those the shortest,
 * of those the one of the least rank.
 *
 * Owner: whoever declares it; symbols_intervals_free(). Read-only once sealed. Errors: no
 * memory.
 */
#ifndef MALLOGRAPH_SYMBOLS_INTERVAL_H
#define MALLOGRAPH_SYMBOLS_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/vector.h"

struct symbols_interval {
	uint64_t low;
	uint64_t high;  /* exclusive */
	uint64_t reach; /* the largest high up to here; set by sealing */
	uint32_t rank;
	uint32_t value;
};

struct symbols_intervals {
	VECTOR(struct symbols_interval) all;
};

/* What a walk along the ranges around an address begins with. */
#define SYMBOLS_INTERVALS_FIRST SIZE_MAX

/* An empty range is left out. */
struct error *symbols_intervals_add(struct symbols_intervals *set, uint64_t low, uint64_t high,
				    uint32_t rank, uint32_t value) ERROR_MUST_CHECK;
void symbols_intervals_seal(struct symbols_intervals *set);
void symbols_intervals_free(struct symbols_intervals *set);

/* The next range around address, outwards; NULL = no more. */
const struct symbols_interval *symbols_intervals_next(const struct symbols_intervals *set,
						      uint64_t address, size_t *position);

#endif
