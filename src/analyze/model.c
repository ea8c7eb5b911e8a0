/* The model as a whole: loading, ordering, sums. */
#include "analyze/model_internal.h"

#include <string.h>

#include "ledger/layout.h"

#define FRAMES_COMPARED 128u

struct error *analyze_each_row(struct store_reader *reader, enum store_table table, uint64_t key,
			       void *row, take_row *take, void *context)
{
	struct store_cursor *cursor;
	struct error *error = NULL;

	TRY(store_cursor_open(reader, table, key, &cursor));
	while (!error && store_cursor_next(cursor, table, row))
		error = take(context, row);

	struct error *failure = store_cursor_close(cursor);

	if (error)
		error_free(failure);
	return error ? error : failure;
}

static struct error *load(struct loading *loading)
{
	bool found;

	TRY(analyze_loading_stacks(loading));
	TRY(analyze_loading_processes(loading));
	TRY(analyze_loading_sites(loading));
	TRY(store_meta_number(loading->reader, "start_unix_ns", &loading->model->start_unix_ns,
			      &found));
	if (!found)
		loading->model->start_unix_ns = 0;
	loading->model->is_finished =
		store_reader_finished(loading->reader) && !loading->has_unfinished;
	loading->model->wrapper_names = calloc(loading->name_list.count, 1);
	return loading->model->wrapper_names ? NULL : error_no_memory();
}

#define HAND_OVER(model, loading, things, thing)                        \
	do {                                                            \
		(model)->things = (loading)->thing##_list.items;        \
		(model)->thing##_count = (loading)->thing##_list.count; \
	} while (0)

/* What was loaded, be it everything or not, is the model's. */
static void hand_over(struct analyze_model *model, const struct loading *loading)
{
	HAND_OVER(model, loading, processes, process);
	HAND_OVER(model, loading, sources, source);
	HAND_OVER(model, loading, sites, site);
	HAND_OVER(model, loading, frames, frame);
	HAND_OVER(model, loading, places, place);
	HAND_OVER(model, loading, lines, line);
	HAND_OVER(model, loading, names, name);
	HAND_OVER(model, loading, modules, module);
	HAND_OVER(model, loading, texts, text);
	model->text_bytes = loading->text_bytes.items;
}

struct error *analyze_model_load(struct store_reader *reader, struct analyze_model **ret)
{
	struct analyze_model *model = calloc(1, sizeof(*model));
	struct loading loading = {.model = model, .reader = reader};

	if (!model) {
		store_reader_close(reader);
		return error_no_memory();
	}
	model->reader = reader;
	struct error *error = load(&loading);

	hand_over(model, &loading);
	vector_free(&loading.texts.list);
	vector_free(&loading.modules.list);
	vector_free(&loading.places.list);
	vector_free(&loading.frames.list);
	vector_free(&loading.processes.list);
	vector_free(&loading.sources.list);
	map_index_free(&loading.name_index);
	if (error) {
		analyze_model_free(model);
		return error;
	}
	*ret = model;
	return NULL;
}

struct error *analyze_model_open(const char *path, struct analyze_model **ret)
{
	struct store_reader *reader;

	TRY(store_reader_open(path, &reader));
	return analyze_model_load(reader, ret);
}

static void free_text(const struct analyze_text *text) { free((char *)(uintptr_t)text->bytes); }

static void free_process(const struct analyze_process *process)
{
	free_text(&process->argv);
	for (size_t i = 0; i < process->loss_count; i++) {
		free_text(&process->losses[i].kind);
		free_text(&process->losses[i].detail);
	}
	free(process->losses);
}

void analyze_model_free(struct analyze_model *model)
{
	if (!model)
		return;
	for (size_t i = 0; i < model->process_count; i++)
		free_process(&model->processes[i]);
	for (size_t i = 0; i < model->module_count; i++)
		free_text(&model->modules[i].build_id);
	free(model->processes);
	free(model->sources);
	free(model->sites);
	free(model->frames);
	free(model->places);
	free(model->lines);
	free(model->names);
	free(model->modules);
	free(model->texts);
	free(model->text_bytes);
	free(model->wrapper_names);
	store_reader_close(model->reader);
	free(model);
}

uint32_t analyze_process_find(const struct analyze_model *model, uint32_t id)
{
	size_t low = 0, high = model->process_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (model->processes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < model->process_count && model->processes[low].id == id ? (uint32_t)low
									    : ANALYZE_NO_PROCESS;
}

const struct analyze_process *analyze_forked_by(const struct analyze_model *model,
						const struct analyze_process *process)
{
	size_t at = (size_t)(process - model->processes);

	for (;;) {
		uint32_t parent = analyze_process_find(model, model->processes[at].parent);

		/* Whoever made the profile may have let it go round. */
		if (parent >= at)
			return NULL;
		if (model->processes[at].how != ANALYZE_EXEC)
			return &model->processes[parent];
		at = parent;
	}
}

void analyze_model_select(struct analyze_model *model, const bool *chosen)
{
	size_t processes = 0, sites = 0;

	for (size_t i = 0; i < model->site_count; i++)
		if (chosen[model->sites[i].process])
			model->sites[sites++] = model->sites[i];
	model->site_count = sites;
	/* Sites are in any order of processes: their new places come from the ids. */
	for (size_t i = 0; i < sites; i++)
		model->sites[i].process = model->processes[model->sites[i].process].id;
	for (size_t i = 0; i < model->process_count; i++)
		if (chosen[i])
			model->processes[processes++] = model->processes[i];
		else
			free_process(&model->processes[i]);
	model->left_out += model->process_count - processes;
	model->process_count = processes;
	for (size_t i = 0; i < sites; i++)
		model->sites[i].process = analyze_process_find(model, model->sites[i].process);
}

const struct analyze_process *analyze_main_process(const struct analyze_model *model)
{
	const struct analyze_process *main = model->process_count ? &model->processes[0] : NULL;

	/* env and shell wrappers exec what one asked about. */
	for (size_t i = 1; i < model->process_count; i++)
		if (model->processes[i].how == ANALYZE_EXEC &&
		    model->processes[i].parent == main->id)
			main = &model->processes[i];
	return main;
}

uint64_t analyze_order_value(const struct analyze_counts *counts, enum analyze_order order)
{
	switch (order) {
	case ANALYZE_BY_LIVE:
		return counts->live_bytes;
	case ANALYZE_BY_ALLOCATIONS:
		return counts->allocations;
	case ANALYZE_BY_BYTES:
		return counts->allocated_bytes;
	case ANALYZE_BY_TEMPORARY:
		return counts->temporary;
	case ANALYZE_BY_PEAK:
	default:
		return counts->peak_bytes;
	}
}

static int compare_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int compare_texts(const struct analyze_text *a, const struct analyze_text *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order = shorter ? memcmp(a->bytes, b->bytes, shorter) : 0;

	return order ? order : compare_numbers(a->length, b->length);
}

static int compare_places(const struct analyze_model *model, uint32_t a, uint32_t b)
{
	const struct analyze_place *x = &model->places[a], *y = &model->places[b];
	int order = x->module == y->module ? 0
					   : compare_texts(&model->modules[x->module].path,
							   &model->modules[y->module].path);

	if (order == 0)
		order = compare_numbers(x->offset, y->offset);
	return order ? order : compare_numbers(x->is_exact, y->is_exact);
}

/* Which may be of tens of thousands of frames, and nothing else differ. */
static int compare_stacks(const struct analyze_model *model, uint32_t a, uint32_t b)
{
	for (unsigned int i = 0; a != b; i++) {
		if (i == FRAMES_COMPARED && model->frames[a].depth != model->frames[b].depth)
			return compare_numbers(model->frames[a].depth, model->frames[b].depth);
		if (i == FRAMES_COMPARED)
			return compare_numbers(a, b);
		if (a == 0 || b == 0)
			return compare_numbers(a != 0, b != 0);
		const struct analyze_frame *x = &model->frames[a], *y = &model->frames[b];
		int order = compare_places(model, x->place, y->place);

		if (order)
			return order;
		a = x->parent;
		b = y->parent;
	}
	return 0;
}

struct sorting {
	const struct analyze_model *model;
	enum analyze_order order;
};

static int compare_sites(const void *a, const void *b, void *context)
{
	static const enum analyze_order next[] = {
		ANALYZE_BY_PEAK, ANALYZE_BY_BYTES,     ANALYZE_BY_ALLOCATIONS,
		ANALYZE_BY_LIVE, ANALYZE_BY_TEMPORARY,
	};
	const struct sorting *sorting = context;
	const struct analyze_site *x = a, *y = b;
	int order = compare_numbers(analyze_order_value(&y->counts, sorting->order),
				    analyze_order_value(&x->counts, sorting->order));

	for (size_t i = 0; order == 0 && i < sizeof(next) / sizeof(next[0]); i++)
		order = compare_numbers(analyze_order_value(&y->counts, next[i]),
					analyze_order_value(&x->counts, next[i]));
	if (order == 0)
		order = compare_numbers(x->process, y->process);
	if (order == 0)
		order = compare_stacks(sorting->model, x->frame, y->frame);
	return order ? order : compare_numbers(x->api, y->api);
}

void analyze_sites_sort(struct analyze_model *model, enum analyze_order order)
{
	struct sorting sorting = {.model = model, .order = order};

	if (model->site_count)
		qsort_r(model->sites, model->site_count, sizeof(*model->sites), compare_sites,
			&sorting);
}

void analyze_counts_add(struct analyze_counts *sum, const struct analyze_counts *counts)
{
	sum->allocations += counts->allocations;
	sum->frees += counts->frees;
	sum->allocated_bytes += counts->allocated_bytes;
	sum->peak_bytes += counts->peak_bytes;
	sum->peak_blocks += counts->peak_blocks;
	sum->live_bytes += counts->live_bytes;
	sum->live_blocks += counts->live_blocks;
	sum->temporary += counts->temporary;
}

const char *analyze_api_name(uint8_t api)
{
	static const char *const names[MGL_API_COUNT] = {
		[MGL_API_MALLOC] = "malloc",
		[MGL_API_CALLOC] = "calloc",
		[MGL_API_REALLOC] = "realloc",
		[MGL_API_REALLOCARRAY] = "reallocarray",
		[MGL_API_MEMALIGN] = "memalign",
		[MGL_API_POSIX_MEMALIGN] = "posix_memalign",
		[MGL_API_ALIGNED_ALLOC] = "aligned_alloc",
		[MGL_API_VALLOC] = "valloc",
		[MGL_API_PVALLOC] = "pvalloc",
		[MGL_API_NEW] = "new",
		[MGL_API_NEW_ARRAY] = "new[]",
		[MGL_API_ALIGNED_NEW] = "aligned new",
		[MGL_API_ALIGNED_NEW_ARRAY] = "aligned new[]",
		[MGL_API_POOL] = "own pool",
	};

	return api < MGL_API_COUNT ? names[api] : NULL;
}
