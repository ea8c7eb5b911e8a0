/*
 * The stacks of a listing of blocks, as they are printed. The same lines come again and
 * again, so each is made once; so are the outer frames that stacks share, and of a site
 * the list of such texts that its stack is made of. What they take is bounded.
 *
 * Owner: report_stacks_free(). The model and the blocks must stay; texts that were put into
 * a gather are borrowed. Errors: no memory, writing failed.
 */
#ifndef MALLOGRAPH_REPORT_STACKS_H
#define MALLOGRAPH_REPORT_STACKS_H

#include "analyze/blocks.h"
#include "base/vector.h"
#include "report/gather.h"

struct report_stacks {
	const struct analyze_model *model;
	const struct analyze_blocks *blocks;
	struct analyze_blocks placed;    /* whose mappings are in placings */
	struct report_kept *lines;       /* by place in the model's */
	struct report_kept *outer;       /* of a frame and all outer ones, by frame */
	size_t outer_left;               /* bytes that may still be kept of them */
	struct report_placing *placings; /* by module */
	struct report_span *spans;       /* by site */
	VECTOR(struct iovec) pieces;     /* that spans refer to */
	/* What of the above is not as it was at first. */
	VECTOR(struct report_kept *) kept;
	VECTOR(struct report_span *) spanned;
};

struct error *report_stacks_init(struct report_stacks *stacks,
				 const struct analyze_model *model) ERROR_MUST_CHECK;
/* From here on those of this process: it forgets what it knew, in the time it took to know it. */
void report_stacks_begin(struct report_stacks *stacks, const struct analyze_blocks *blocks);
void report_stacks_free(struct report_stacks *stacks);

/* The stack of a site, by its place in the model's, as it was ns after the process began. */
struct error *report_stacks_put(struct report_stacks *stacks, uint32_t site, uint64_t ns,
				struct report_gather *gather) ERROR_MUST_CHECK;
/* The same of a block whose site is not known. */
struct error *report_stacks_put_unknown(struct report_gather *gather) ERROR_MUST_CHECK;

#endif
