/* The model's making, shared by src/analyze alone. */
#ifndef MALLOGRAPH_ANALYZE_MODEL_INTERNAL_H
#define MALLOGRAPH_ANALYZE_MODEL_INTERNAL_H

#include "analyze/model.h"
#include "base/map.h"
#include "base/vector.h"
#include "ledger/family.h"
#include "ledger/stacks.h"

struct site_size {
	uint32_t site;
	uint32_t size_class;
	uint64_t allocations;
};

/* Sums that may be negative in a single row, or in a damaged ledger. */
struct site_sums {
	int64_t live_blocks;
	int64_t live_bytes;
	int64_t live_blocks_low;
	int64_t live_bytes_low;
	int64_t peak_blocks;
	int64_t peak_bytes;
};

/* A model under way: arrays that still grow, and the indexes that find equals. */
struct builder {
	struct ledger_reader *reader;
	struct analyze_process *processes;
	size_t process_count;
	VECTOR(struct analyze_site) sites;
	VECTOR(struct site_sums) sums; /* parallel to sites */
	VECTOR(struct site_size) sizes;
	struct ledger_stacks stacks;
	struct map_index site_index;
	struct map_index size_index;
};

struct error *analyze_text_copy(struct analyze_text *to,
				const struct ledger_text *from) ERROR_MUST_CHECK;

/* frames.c: moves the canonical stacks into the model. */
struct error *analyze_frames_copy(const struct ledger_stacks *stacks,
				  struct analyze_model *model) ERROR_MUST_CHECK;

/* sites.c: adds a process's rows to the sites and to its own counts. damage counts what
 * was negative though nothing ran meanwhile. */
struct error *analyze_sites_load(struct builder *builder, size_t process,
				 uint64_t *damage) ERROR_MUST_CHECK;
/* Moves the sizes into their final order. */
struct error *analyze_sites_finish(struct builder *builder,
				   struct analyze_model *model) ERROR_MUST_CHECK;

/* process.c */
struct error *analyze_processes_load(struct builder *builder) ERROR_MUST_CHECK;
struct error *analyze_process_add_loss(struct analyze_process *process, const char *kind,
				       uint64_t count,
				       const struct ledger_text *detail) ERROR_MUST_CHECK;

#endif
