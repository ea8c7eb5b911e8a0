/*
 * All processes of a profile together: how many, what they allocated, the tree's peak, and who
 * was behind it.
 *
 * The tree's peak is the most that lived in all processes at one instant. It is known between
 * two bounds: at least what was seen at an instant, or had one process alone; at most that plus
 * what could be missed between instants, and never more than the peaks of those that ran at
 * once.
 *
 * Owner: the caller, by analyze_together_free(). Times in ns since the session began.
 * Errors: the profile's; no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_TOGETHER_H
#define MALLOGRAPH_ANALYZE_TOGETHER_H

#include "analyze/sections.h"
#include "analyze/timeline.h"

struct analyze_together {
	struct analyze_sections programs;
	struct analyze_timeline timeline; /* of all at once; nothing if it was not kept */
	size_t process_count;             /* as the kernel counts them: exec makes no new one */
	struct analyze_counts counts;     /* sums; peak_* is 0 */
	uint64_t failed;
	uint64_t end_ns;        /* of the last */
	size_t running;         /* processes */
	uint64_t running_bytes; /* live in them: upper bounds; the rest is what ended ones left */
	uint64_t running_blocks;
	uint64_t peak_low;  /* of the tree */
	uint64_t peak_high; /* >= peak_low */
	uint64_t peak_ns;   /* when peak_low was; or ANALYZE_UNKNOWN */
	/* peak_low was seen at an instant, of which processes have their tree_peak_bytes; else one
	 * process had it alone. */
	bool is_instant;
	/* Of a merged profile: whose processes had peak_low together; NULL = one had it. */
	const struct analyze_source *peak_source;
	uint32_t leader; /* place of the process that had most of it */
	/* What others did beside the main process is worth telling. */
	bool matters;
};

/* As the kernel counts them: exec makes no new one. */
size_t analyze_process_count(const struct analyze_model *model);

struct error *analyze_together_make(struct analyze_model *model,
				    struct analyze_together *ret) ERROR_MUST_CHECK;
void analyze_together_free(struct analyze_together *together);

#endif
