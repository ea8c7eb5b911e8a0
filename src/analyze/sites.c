/* Sites, and the sizes they allocated. */
#include "analyze/model_internal.h"
#include "analyze/stacks.h"

#include <string.h>

/* The title's place as a frame of the stack: the innermost that is there. */
static void set_title(struct loading *loading, struct analyze_site *site, uint32_t place,
		      uint64_t depth)
{
	const struct analyze_place *titled = &loading->place_list.items[place];

	if (place == 0)
		return;
	if (depth >= titled->line_count)
		depth = 0;
	for (uint32_t frame = site->frame; frame; frame = loading->frame_list.items[frame].parent) {
		if (loading->frame_list.items[frame].place != place)
			continue;
		site->title_frame = frame;
		site->title_line = titled->first_line + (uint32_t)depth;
		return;
	}
}

static uint64_t count_of(uint64_t value) { return value == STORE_UNKNOWN ? 0 : value; }

static struct error *add_site(void *context, const void *from)
{
	struct loading *loading = context;
	const struct store_site *row = from;
	struct analyze_site site = {
		.id = (uint32_t)row->id,
		.process_count = 1,
		.api = (uint8_t)row->api,
		.counts =
			{
				.allocations = count_of(row->allocs),
				.frees = count_of(row->frees),
				.allocated_bytes = count_of(row->alloc_bytes),
				.peak_bytes = count_of(row->peak_bytes),
				.peak_blocks = count_of(row->peak_blocks),
				.live_bytes = count_of(row->live_bytes),
				.live_blocks = count_of(row->live_blocks),
				.temporary = count_of(row->temporary),
			},
	};
	uint32_t title;

	TRY(analyze_ids_find(&loading->processes, row->process, "process", &site.process));
	site.process--;
	TRY(analyze_ids_find(&loading->frames, row->stack, "stack", &site.frame));
	TRY(analyze_ids_find(&loading->places, row->title, "loc", &title));
	set_title(loading, &site, title, row->title_depth);
	return vector_push(&loading->site_list, site);
}

struct error *analyze_loading_sites(struct loading *loading)
{
	struct store_site row;

	return analyze_each_row(loading->reader, STORE_TABLE_SITE, STORE_ALL, &row, add_site,
				loading);
}

/* --- sizes -------------------------------------------------------------------------- */

struct by_id {
	uint32_t id;
	uint32_t at; /* place in the model's sites */
};

static int compare_ids(const void *a, const void *b)
{
	const struct by_id *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

struct sizing {
	struct analyze_model *model;
	struct by_id *order; /* of the sites */
	size_t next;         /* there */
	size_t *first;
	size_t *starts; /* by site: place in sizes, and how many */
	size_t *counts;
	VECTOR(struct analyze_size) sizes;
};

/* Rows come in the order of ids; sites are in any. */
static struct error *add_size(void *context, const void *from)
{
	const struct store_site_size *row = from;
	struct sizing *sizing = context;
	size_t count = sizing->model->site_count;

	while (sizing->next < count && sizing->order[sizing->next].id < row->site)
		sizing->next++;
	if (sizing->next == count || sizing->order[sizing->next].id != row->site)
		return NULL;
	size_t at = sizing->order[sizing->next].at;

	if (sizing->counts[at]++ == 0)
		sizing->starts[at] = sizing->sizes.count;
	return vector_push(&sizing->sizes, ((struct analyze_size){
						   .size_class = (uint32_t)row->class,
						   .allocations = count_of(row->allocs),
						   .bytes = count_of(row->bytes),
					   }));
}

static struct error *sort_sizes(struct sizing *sizing, struct analyze_size **ret)
{
	size_t count = sizing->model->site_count;
	CLEANUP_FREE size_t *starts = calloc(count + 1, sizeof(*starts));
	CLEANUP_FREE size_t *counts = calloc(count + 1, sizeof(*counts));

	struct store_site_size row;

	if (!starts || !counts)
		return error_no_memory();
	sizing->starts = starts;
	sizing->counts = counts;
	TRY(analyze_each_row(sizing->model->reader, STORE_TABLE_SITE_SIZE, STORE_ALL, &row,
			     add_size, sizing));
	*ret = calloc(sizing->sizes.count + 1, sizeof(**ret));
	if (!*ret)
		return error_no_memory();
	for (size_t i = 0; i < count; i++) {
		sizing->first[i + 1] = sizing->first[i] + counts[i];
		if (counts[i])
			memcpy(*ret + sizing->first[i], sizing->sizes.items + starts[i],
			       counts[i] * sizeof(**ret));
	}
	return NULL;
}

struct error *analyze_sizes_load(struct analyze_model *model, struct analyze_size **ret,
				 size_t **ret_first)
{
	size_t count = model->site_count;
	CLEANUP_FREE struct by_id *order = calloc(count + 1, sizeof(*order));
	CLEANUP_FREE size_t *first = calloc(count + 1, sizeof(*first));
	struct sizing sizing = {.model = model, .order = order, .first = first};

	if (!order || !first)
		return error_no_memory();
	for (size_t i = 0; i < count; i++)
		order[i] = (struct by_id){.id = model->sites[i].id, .at = (uint32_t)i};
	qsort(order, count, sizeof(*order), compare_ids);
	struct error *error = sort_sizes(&sizing, ret);

	vector_free(&sizing.sizes);
	TRY(error);
	*ret_first = STEAL(first);
	return NULL;
}
