/* The model's making, shared by src/analyze alone. */
#ifndef MALLOGRAPH_ANALYZE_MODEL_INTERNAL_H
#define MALLOGRAPH_ANALYZE_MODEL_INTERNAL_H

#include "analyze/model.h"
#include "base/map.h"
#include "base/vector.h"
#include "store/store.h"

/* A profile's ids, ascending. What has the id has the place after it: 0 is for none. */
struct analyze_ids {
	VECTOR(uint32_t) list;
};

/* A model under way. */
struct loading {
	struct analyze_model *model;
	struct store_reader *reader;
	struct analyze_ids texts, modules, places, frames, processes, sources;
	VECTOR(char) text_bytes;
	VECTOR(struct analyze_text) text_list;
	VECTOR(struct analyze_module) module_list;
	VECTOR(struct analyze_place) place_list;
	VECTOR(struct analyze_line) line_list;
	VECTOR(struct analyze_name) name_list;
	VECTOR(struct analyze_frame) frame_list;
	VECTOR(struct analyze_process) process_list;
	VECTOR(struct analyze_source) source_list;
	bool has_unfinished; /* one of the sources */
	VECTOR(struct analyze_site) site_list;
	struct map_index name_index;
};

/* A copy of its own, malloc'd. */
struct error *analyze_text_copy(struct analyze_text *to,
				const struct store_text *from) ERROR_MUST_CHECK;
struct error *analyze_ids_add(struct analyze_ids *ids, uint64_t id) ERROR_MUST_CHECK;
/* id 0 is 0; ERROR_DAMAGED where nothing has it. what names the table. */
struct error *analyze_ids_find(const struct analyze_ids *ids, uint64_t id, const char *what,
			       uint32_t *ret) ERROR_MUST_CHECK;

/* Each row of a table, or of its key, into *row and so to take, which is given the context. */
typedef struct error *take_row(void *context, const void *row);
struct error *analyze_each_row(struct store_reader *reader, enum store_table table, uint64_t key,
			       void *row, take_row *take, void *context) ERROR_MUST_CHECK;
/* The text of a string's id, which the model owns. */
struct error *analyze_loading_text(struct loading *loading, uint64_t id,
				   struct analyze_text *ret) ERROR_MUST_CHECK;

/* stacks_load.c: strings, modules, places with their lines and names, frames. */
struct error *analyze_loading_stacks(struct loading *loading) ERROR_MUST_CHECK;
/* process.c */
struct error *analyze_loading_processes(struct loading *loading) ERROR_MUST_CHECK;
/* sites.c; what is above must be loaded. */
struct error *analyze_loading_sites(struct loading *loading) ERROR_MUST_CHECK;

#endif
