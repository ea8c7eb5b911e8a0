/*
 * Walking stacks, and what sites are named after.
 *
 * Owner: nothing is owned. Facts: symbols/title.h.
 */
#ifndef MALLOGRAPH_ANALYZE_STACKS_H
#define MALLOGRAPH_ANALYZE_STACKS_H

#include "analyze/model.h"
#include "base/strbuf.h"

/*
 * From a frame outwards, inlined calls as steps of their own:
 *
 *	struct analyze_walk walk = ANALYZE_WALK(model, site->frame);
 *	while (analyze_walk_next(&walk))
 *		use(walk.frame, walk.line, walk.is_inlined);
 */
struct analyze_walk {
	const struct analyze_model *model;
	uint32_t frame; /* place in frames */
	uint32_t line;  /* place in lines */
	uint32_t left;  /* lines of the frame still to come */
	uint32_t next;  /* frame after this one */
	bool is_inlined;
};

#define ANALYZE_WALK(walked_model, innermost)                \
	{                                                    \
		.model = (walked_model), .next = (innermost) \
	}

bool analyze_walk_next(struct analyze_walk *walk);

/* Start in the midst of a stack: the first step is the one after frame and line. */
struct analyze_walk analyze_walk_after(const struct analyze_model *model, uint32_t frame,
				       uint32_t line);

/* Whether a name is one of a wrapper of the allocator, or of the C or C++ library. */
bool analyze_name_is_wrapper(const struct analyze_model *model, uint32_t name);
/* Whether it is where every program or thread begins, so that it tells nothing. */
bool analyze_name_is_root(const struct analyze_model *model, uint32_t name);

/* Into an empty buffer: a function's name without parameters, template arguments and what it
 * returns; nothing where there is none. */
void analyze_name_plain(const struct analyze_model *model, uint32_t name, struct strbuf *ret);

/* The name a site is called by; 0 = not known. */
uint32_t analyze_site_title(const struct analyze_model *model, const struct analyze_site *site);
/* Title all sites anew, with more wrappers: globs as for --alloc-fn, which must outlive the
 * model. */
struct error *analyze_titles_set(struct analyze_model *model, const char *const *patterns,
				 size_t pattern_count) ERROR_MUST_CHECK;

#endif
