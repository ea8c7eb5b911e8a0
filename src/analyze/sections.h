/*
 * Processes sorted into sections: each one its own, those of a program together, or all.
 *
 * A child of fork that at once went on as another program is a step on the way to that one: it
 * has no section of its own and counts as a part of what it became.
 *
 * Peaks of several processes were at different times and never add up: a section's peak is that
 * of its largest process. Everything else of its counts is a sum.
 *
 * Owner: the caller, by analyze_sections_free(); texts are the model's. Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_SECTIONS_H
#define MALLOGRAPH_ANALYZE_SECTIONS_H

#include "analyze/model.h"

enum analyze_split {
	ANALYZE_SPLIT_NOTHING,
	ANALYZE_SPLIT_PROCESS,
	ANALYZE_SPLIT_PROGRAM, /* by the path of its file */
	/* Of a merged profile: */
	ANALYZE_SPLIT_RANK,
	ANALYZE_SPLIT_FILE,
	ANALYZE_SPLIT_HOST,
};

struct analyze_section {
	uint32_t largest;     /* place of the process with the largest peak */
	size_t process_count; /* without steps */
	struct analyze_counts counts;
	uint64_t tree_peak_bytes; /* in all of them at the tree's peak; or ANALYZE_UNKNOWN */
};

struct analyze_sections {
	struct analyze_section *items; /* in the order their first process began */
	size_t count;
	uint32_t *of; /* by process: place of its section */
};

/* By process that is a step: the place of the one it became; else its own. malloc'd. */
struct error *analyze_steps_make(const struct analyze_model *model,
				 uint32_t **ret) ERROR_MUST_CHECK;

struct error *analyze_sections_make(const struct analyze_model *model, enum analyze_split split,
				    struct analyze_sections *ret) ERROR_MUST_CHECK;
void analyze_sections_free(struct analyze_sections *sections);

/* Sites of one stack and function called in a section become one: its counts are sums, but peak_*
 * and the process are those of the process where its share of the peak is largest. After that
 * their sizes and blocks can no longer be asked for. */
struct error *analyze_sites_merge(struct analyze_model *model,
				  const struct analyze_sections *sections) ERROR_MUST_CHECK;

/* The places of sections by an order, the largest first; of equals the one that began first.
 * *ret malloc'd. */
struct error *analyze_sections_order(const struct analyze_sections *sections,
				     enum analyze_order order, uint32_t **ret) ERROR_MUST_CHECK;

#endif
