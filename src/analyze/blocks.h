/*
 * Blocks that were still live at the end, or now.
 *
 * Owner: the caller, by analyze_blocks_free(). Times in ns since the process began.
 * Errors: the profile's; no memory.
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
	uint32_t module;
	uint64_t start;
	uint64_t stop;
	uint64_t bias; /* address − offset */
	uint64_t loaded_ns;
	uint64_t unloaded_ns; /* ANALYZE_UNKNOWN = never */
};

struct analyze_blocks {
	struct analyze_block *items; /* oldest first */
	size_t count;
	struct analyze_mapping *mappings;
	size_t mapping_count;
};

struct error *analyze_blocks_load(struct analyze_model *model, uint32_t process,
				  struct analyze_blocks *ret) ERROR_MUST_CHECK;
void analyze_blocks_free(struct analyze_blocks *blocks);

/* The address a place had at a time; false = not known. */
bool analyze_place_address(const struct analyze_model *model, const struct analyze_blocks *blocks,
			   uint32_t place, uint64_t ns, uint64_t *ret);

#endif
