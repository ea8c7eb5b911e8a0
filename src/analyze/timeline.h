/*
 * What lived when: the snapshots of a process, or of all processes together.
 *
 * Owner: the caller, by analyze_timeline_free(). Times in ns since the process, or
 * the session, began.
 * Errors: the profile's; no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_TIMELINE_H
#define MALLOGRAPH_ANALYZE_TIMELINE_H

#include "analyze/model.h"

struct analyze_snap {
	uint64_t ns;
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint64_t rss; /* or ANALYZE_UNKNOWN */
	uint64_t mapped;
	bool is_peak;
};

struct analyze_timeline {
	struct analyze_snap *snaps; /* by time */
	size_t count;
	size_t ticks; /* of them, those taken while it ran */
	uint64_t end_ns;
};

/* process: its place, or ANALYZE_ALL_PROCESSES. */
struct error *analyze_timeline_load(struct analyze_model *model, uint32_t process,
				    struct analyze_timeline *ret) ERROR_MUST_CHECK;
void analyze_timeline_free(struct analyze_timeline *timeline);

/* The most that lived in each of count equal parts of the time, as far as was seen. */
void analyze_timeline_spread(const struct analyze_timeline *timeline, uint64_t *columns,
			     size_t count);
/* The part a time falls in. */
size_t analyze_timeline_column(const struct analyze_timeline *timeline, uint64_t ns, size_t count);

#endif
