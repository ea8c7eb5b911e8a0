/*
 * Blocks that were still live at the end, or now, of one process after the other: what their
 * profile has of all is read once, however many processes there are.
 *
 * Owner: the caller, by analyze_listing_close() and analyze_blocks_free(), in any order; a
 * process's mappings are the listing's. Times in ns since the process began. Errors: the
 * profile's; no memory.
 */
#ifndef MALLOGRAPH_ANALYZE_BLOCKS_H
#define MALLOGRAPH_ANALYZE_BLOCKS_H

#include "analyze/model.h"

struct analyze_block {
	uint64_t address;
	uint64_t size;
	uint64_t number;  /* of the allocation; ANALYZE_UNKNOWN */
	uint64_t born_ns; /* ANALYZE_UNKNOWN */
	uint32_t site;    /* place in sites + 1, as they are sorted then; 0 = not known */
};

/* Where a module was mapped. */
struct analyze_mapping {
	uint32_t process; /* place in the model's */
	uint32_t module;
	uint32_t order; /* of those of the module */
	uint64_t start;
	uint64_t stop;
	uint64_t bias; /* address − offset */
	uint64_t loaded_ns;
	uint64_t unloaded_ns; /* ANALYZE_UNKNOWN = never */
};

struct analyze_blocks {
	struct analyze_block *items; /* oldest first */
	size_t count;
	const struct analyze_mapping *mappings; /* by module */
	size_t mapping_count;
};

struct analyze_listing;

/* Of the sites as they are sorted now; the model stays as it is until it is closed. */
struct error *analyze_listing_open(struct analyze_model *model,
				   struct analyze_listing **ret) ERROR_MUST_CHECK;
/* process: its place in the model, larger from call to call. */
struct error *analyze_listing_next(struct analyze_listing *listing, uint32_t process,
				   struct analyze_blocks *ret) ERROR_MUST_CHECK;
void analyze_listing_close(struct analyze_listing *listing);
void analyze_blocks_free(struct analyze_blocks *blocks);

/* The address a place had at a time; false = not known. */
bool analyze_place_address(const struct analyze_model *model, const struct analyze_blocks *blocks,
			   uint32_t place, uint64_t ns, uint64_t *ret);

#endif
