/*
 * A profile on its way to better symbols: symbolize.c reads it and looks up what it lacks,
 * symbolize_write.c writes it anew. Owner and errors: symbolize.h.
 */
#ifndef MALLOGRAPH_COLLECT_SYMBOLIZE_INTERNAL_H
#define MALLOGRAPH_COLLECT_SYMBOLIZE_INTERNAL_H

#include "base/map.h"
#include "base/vector.h"
#include "collect/symbolize.h"
#include "collect/titles.h"
#include "store/store.h"
#include "symbols/symbols.h"

struct symbolize_module {
	uint64_t id;
	char *path;
	char *build_id;
	enum symbols_level level;       /* as it stands in the profile */
	struct symbols_module *symbols; /* NULL = nothing to look up */
	size_t named_then, named_now;   /* lines with a function */
	bool is_runtime;
	bool is_vdso;
	bool is_better;
};

struct symbolize_loc {
	uint64_t id;
	uint32_t module; /* place in modules */
	uint64_t offset;
	bool is_exact;
	bool has_lines; /* in the profile */
	uint32_t named; /* of collect_titles_line() */
};

struct collect_symbolizing {
	struct store_reader *reader;
	struct symbols *symbols;
	int vdso;                                /* descriptor of this kernel's; −1 = not open */
	VECTOR(struct symbolize_module) modules; /* [0] = no module */
	struct map_u64 module_at;
	VECTOR(struct symbolize_loc) locs; /* [0] = no place */
	struct map_u64 loc_at;
	VECTOR(struct store_stack) stacks; /* [0] = no frame */
	struct map_u64 stack_at;
	struct collect_titles titles;
	/* While it is written: */
	struct store_writer *writer;
	struct store_copy *copy;
	struct error *error;
};

/* Those that were looked up now. */
const struct symbols_frame *collect_symbolize_frames(const struct collect_symbolizing *symbolizing,
						     const struct symbolize_loc *loc,
						     size_t *ret_count);

#endif
