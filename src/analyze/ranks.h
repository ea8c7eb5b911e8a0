/*
 * A merged profile by rank, file or host: how far its sections (sections.h) differ, in all and
 * for each site.
 *
 * A section without a site has 0 of it. A section's peak is that of its processes together where
 * that was kept (of several profiles in it the largest), or its largest process's; of a site what
 * one of its processes had at its own peak.
 *
 * Owner: the caller, by analyze_ranks_free(). Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_RANKS_H
#define MALLOGRAPH_ANALYZE_RANKS_H

#include "analyze/groups.h"
#include "analyze/sections.h"

/* The median of an even number is the mean of the two in the middle. */
struct analyze_spread {
	uint64_t least;
	uint64_t median;
	uint64_t most;
	uint32_t section; /* that has the most */
};

struct analyze_ranked_site {
	uint32_t group;  /* place in groups */
	size_t sections; /* that have it */
	struct analyze_spread spread;
};

struct analyze_ranks {
	struct analyze_sections sections; /* counts.peak_bytes as above */
	struct analyze_groups groups;
	struct analyze_ranked_site *sites; /* the largest most first */
	size_t site_count;
};

/* Sites by the order's figure; those without any of it are left out. */
struct error *analyze_ranks_make(const struct analyze_model *model, enum analyze_split split,
				 enum analyze_order order,
				 struct analyze_ranks *ret) ERROR_MUST_CHECK;
void analyze_ranks_free(struct analyze_ranks *ranks);

/* Of the sections' own figures. */
struct error *analyze_ranks_spread(const struct analyze_ranks *ranks, enum analyze_order order,
				   struct analyze_spread *ret) ERROR_MUST_CHECK;

#endif
