/*
 * The tree of processes as lines: who came from whom, each once, many alike as one.
 *
 * More than a few processes that are alike (alike.h) and came from the same line are a line
 * together, and so are all theirs that came from them. A step (sections.h) is no line. Of the lines those
 * with the largest peaks are kept, and where they came from.
 *
 * Owner: the caller, by analyze_lineage_free(). Times in ns since the session began.
 * Errors: no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_LINEAGE_H
#define MALLOGRAPH_ANALYZE_LINEAGE_H

#include "analyze/model.h"

struct analyze_kin {
	uint32_t process; /* place; of many the one with the largest peak */
	uint32_t step;    /* place of the step it began as; else the same */
	uint32_t parent;  /* line it came from, less than its own; ANALYZE_NO_PROCESS = none */
	uint32_t depth;   /* processes it came from: an exec makes no new one */
	size_t count;     /* processes */
	size_t failed;    /* those that exited with another status than 0, or by a signal */
	bool ends_differ;
	uint64_t peak_bytes;  /* of the largest */
	uint64_t start_ns;    /* of the first */
	uint64_t duration_ns; /* of the longest; or ANALYZE_UNKNOWN */
};

struct analyze_lineage {
	struct analyze_kin *items; /* a line's own come behind it, in the order they began */
	size_t count;
	size_t others; /* processes in lines that were not kept */
	uint64_t others_peak_bytes;
};

/* limit: lines at most; SIZE_MAX = all, and a line for each. */
struct error *analyze_lineage_make(const struct analyze_model *model, size_t limit,
				   struct analyze_lineage *ret) ERROR_MUST_CHECK;
void analyze_lineage_free(struct analyze_lineage *lineage);

#endif
