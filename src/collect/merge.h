/*
 * Many profiles into one: ranks of a parallel job, hosts, several runs. Each process keeps which
 * profile it is from (table source). Strings, modules (by build-id), places in them and stacks
 * are shared; processes, threads, sites and snapshots get ids of their own; times count from
 * when the first of the profiles began. Of symbols those of the profile that knows a module best
 * are taken, and sites are titled anew by them.
 *
 * Rows are copied one by one, from one profile after the other: what is held in memory are
 * modules, places, stacks and strings. A profile that is damaged is refused, and so are ids that
 * do not fit in 32 bits together.
 *
 * Owner: the caller keeps the paths until collect_merge_free(). Errors: the profiles'; no
 * memory; a file that cannot be written.
 */
#ifndef MALLOGRAPH_COLLECT_MERGE_H
#define MALLOGRAPH_COLLECT_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct collect_output;

struct collect_merge {
	const char *const *paths;
	size_t count;
	/* After it: */
	size_t unfinished; /* that were not written to their end, */
	const char *first_unfinished;
	uint64_t processes;
};

/* What output names is written whole, or not at all. */
struct error *collect_merge(struct collect_merge *merge,
			    struct collect_output *output) ERROR_MUST_CHECK;

#endif
