/*
 * What can be said in a sentence: who is behind most of the peak, and whose symbols would
 * tell more.
 *
 * Owner: the caller frees lists. Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_FINDING_H
#define MALLOGRAPH_ANALYZE_FINDING_H

#include "analyze/model.h"

#define ANALYZE_BRANCHES 3u

struct analyze_share {
	uint32_t name; /* 0 = there is none */
	uint64_t peak_bytes;
	bool is_title; /* allocated by itself, not by what it calls */
};

/*
 * Functions that have a name and tell something (main, if it allocates itself), and below which most of the
 * process's peak was allocated. most: the narrowest with four fifths of it or, where none
 * has that much, half. narrower: of an event loop one would rather know what it did; the
 * narrowest with half, where that is another one with much less. branches: what the last of
 * these called, a tenth of the peak each at least, the largest first; not what allocated by
 * itself, which the table of sites has. Where the last called one with nearly all it has, that
 * stands in its place, so that there are branches.
 */
struct analyze_finding {
	struct analyze_share most, narrower;
	struct analyze_share branches[ANALYZE_BRANCHES];
	size_t branch_count;
	/* Where there is no such function: the library whose sites have four fifths. */
	uint32_t module;
	uint64_t module_bytes;
};

struct error *analyze_finding_make(const struct analyze_model *model, uint32_t process,
				   struct analyze_finding *ret) ERROR_MUST_CHECK;

/* A module in the process's stacks whose symbols are not all there. */
struct analyze_lack {
	uint32_t module;
	uint64_t bytes;    /* allocated through it */
	bool has_nameless; /* a frame there has no function, as of a stripped one that exports some */
};

/* The C library and its kin left out; those with most bytes first. *ret malloc'd. */
struct error *analyze_lacks_make(const struct analyze_model *model, uint32_t process,
				 struct analyze_lack **ret, size_t *ret_count) ERROR_MUST_CHECK;

#endif
