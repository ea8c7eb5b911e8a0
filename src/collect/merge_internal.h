/*
 * Profiles on their way into one: merge.c leads, merge_places.c has what they share, merge_rows.c
 * copies what is each one's own. Owner and errors: merge.h.
 *
 * Each profile is opened for each pass: first places and stacks are gathered, then lines are
 * taken from the profiles that know a module best, then from the others, last comes the rest.
 */
#ifndef MALLOGRAPH_COLLECT_MERGE_INTERNAL_H
#define MALLOGRAPH_COLLECT_MERGE_INTERNAL_H

#include "base/map.h"
#include "base/vector.h"
#include "collect/merge.h"
#include "collect/titles.h"
#include "store/store.h"

struct merge_module {
	struct store_module row; /* strings are the writer's */
	char *build_id, *arch;   /* of row; as recorded, or NULL */
	size_t input;            /* what it is known by without a build-id: of which profile */
	uint64_t id;             /* … its id there */
	bool is_runtime;
};

struct merge_loc {
	uint64_t offset;
	uint32_t module; /* place in modules */
	uint32_t lines;  /* pass and profile its lines are from; 0 = none so far */
	uint32_t named;  /* of collect_titles_line() */
	uint8_t flags;
};

/* A profile under way. */
struct merge_input {
	size_t number;
	const char *path;
	struct store_reader *reader;
	struct store_copy *copy;
	struct map_u64 module_at; /* ids → places */
	struct map_u64 levels;    /* modules' ids → enum store_symbols, there */
	struct map_u64 loc_at;
	struct map_u64 worse; /* places' ids whose module others know better */
	struct map_u64 stack_at;
	struct map_u64 processes; /* ids */
	struct map_u64 sources;   /* ids → those of its sources in the merged one */
	uint64_t shift;           /* ns from the merged beginning to its own */
	uint64_t last_process, last_thread, last_site, last_snap; /* its largest ids */
};

struct merging {
	struct collect_merge *merge;
	struct store_writer *writer;
	struct collect_titles titles;
	VECTOR(struct merge_module) modules; /* [0] = none; ids are places */
	VECTOR(struct merge_loc) locs;       /* [0] = missing */
	VECTOR(struct store_stack) stacks;   /* [0] = no frame */
	struct map_index module_index, loc_index, stack_index;
	bool is_gathering;      /* else what is met must be known */
	bool differ;            /* in how well they know a module */
	uint32_t pass;          /* of lines */
	uint64_t start_unix_ns; /* the earliest; 0 = none is known */
	/* The largest ids written so far. */
	uint64_t processes, threads, sites, snaps, sources;
	struct merge_input input;
	struct error *error; /* of a change */
};

/* merge_places.c */
struct error *merge_begin_places(struct merging *merging) ERROR_MUST_CHECK;
/* The input's modules, places and stacks; written, if gathering. */
struct error *merge_places(struct merging *merging) ERROR_MUST_CHECK;
struct error *merge_put_modules(struct merging *merging) ERROR_MUST_CHECK;
/* The input's lines where they are wanted in this pass. */
struct error *merge_lines(struct merging *merging) ERROR_MUST_CHECK;
void merge_free_places(struct merging *merging);

/* merge_rows.c: everything else of the input. */
struct error *merge_rows(struct merging *merging) ERROR_MUST_CHECK;

/* Each row of a table of the input through take, which gets merging. */
typedef struct error *merge_take(struct merging *merging, const void *row);
struct error *merge_each(struct merging *merging, enum store_table table, void *row,
			 merge_take *take) ERROR_MUST_CHECK;
/* The input contradicts itself. */
struct error *merge_damaged(const struct merging *merging, const char *what) ERROR_MUST_CHECK;

#endif
