/*
 * What sites are named after, where a profile is written anew from others: from the lines of
 * places, as they are copied, and the stacks of sites. Facts: symbols/title.h.
 *
 * Owner: whoever declares it; collect_titles_free(). Errors: the profile's; no memory.
 */
#ifndef MALLOGRAPH_COLLECT_TITLES_H
#define MALLOGRAPH_COLLECT_TITLES_H

#include "base/vector.h"
#include "store/store.h"

struct collect_titles {
	VECTOR(char *) texts; /* of --alloc-fn, cut into: */
	VECTOR(const char *) alloc_fns;
};

/* Adds the patterns a profile was recorded with; those that are there already are not again. */
struct error *collect_titles_read(struct collect_titles *titles,
				  struct store_reader *reader) ERROR_MUST_CHECK;
void collect_titles_free(struct collect_titles *titles);

/* One more line of a place: into what its lines so far gave, SYMBOLS_TITLE_NONE at first. */
void collect_titles_line(const struct collect_titles *titles, uint64_t depth, const char *function,
			 uint32_t *named);
/* The same of a reader's line. */
struct error *collect_titles_row(const struct collect_titles *titles, struct store_reader *reader,
				 const struct store_line *line, uint32_t *named) ERROR_MUST_CHECK;

/* A place of a stack; id 0 = it is missing. */
struct collect_titles_place {
	uint64_t id;
	uint32_t named; /* 0 where it has no lines */
	bool is_runtime;
};

typedef struct collect_titles_place collect_titles_place_of(void *context, uint64_t loc);

/* Sets a site's title by its stack: frame is a place among stacks, whose parent (less than its
 * own) is one, too; 0 = none. place_of is asked for their locs. */
void collect_titles_set(struct store_site *site, const struct store_stack *stacks, uint64_t frame,
			collect_titles_place_of *place_of, void *context);

/* Text as it was recorded, malloc'd; "" = none. */
struct error *collect_plain_text(const struct store_text *text, char **ret) ERROR_MUST_CHECK;

#endif
