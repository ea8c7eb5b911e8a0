/*
 * What can be said in a sentence: who is behind most of the peak, and whose symbols would
 * tell more.
 *
 * Owner: the caller frees lists. Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_FINDING_H
#define MALLOGRAPH_ANALYZE_FINDING_H

#include "analyze/model.h"

/* The narrowest function that has a name, tells something (not main), and below which most
 * of the process's peak was allocated: four fifths, or where no function has that much,
 * half. */
struct analyze_finding {
	uint32_t name; /* 0 = there is none */
	uint64_t peak_bytes;
	bool is_title; /* allocated by itself, not by what it calls */
};

struct error *analyze_finding_make(const struct analyze_model *model, uint32_t process,
				   struct analyze_finding *ret) ERROR_MUST_CHECK;

/* A module in the process's stacks whose symbols are not all there. */
struct analyze_lack {
	uint32_t module;
	uint64_t bytes; /* allocated through it */
};

/* The C library and its kin left out; those with most bytes first. *ret malloc'd. */
struct error *analyze_lacks_make(const struct analyze_model *model, uint32_t process,
				 struct analyze_lack **ret, size_t *ret_count) ERROR_MUST_CHECK;

#endif
