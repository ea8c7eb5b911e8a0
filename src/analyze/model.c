/* The model as a whole: loading, ordering, sums. */
#include "analyze/model_internal.h"

#include <string.h>

static struct error *load_process(struct builder *builder, size_t at)
{
	uint64_t damage = 0;

	TRY(analyze_sites_load(builder, at, &damage));

	const struct ledger_process *from = ledger_reader_process(builder->reader, at);

	if (from->damage + damage == 0)
		return NULL;
	const char *note = from->damage_note ? from->damage_note : "counts or stacks";
	struct ledger_text detail = {.bytes = note, .length = strlen(note)};

	return analyze_process_add_loss(&builder->processes[at], "damaged", from->damage + damage,
					&detail);
}

static struct error *build(struct builder *builder, struct analyze_model *model)
{
	builder->process_count = ledger_reader_process_count(builder->reader);
	builder->processes = calloc(builder->process_count + 1, sizeof(*builder->processes));
	if (!builder->processes)
		return error_no_memory();
	TRY(ledger_stacks_init(&builder->stacks, builder->reader));
	TRY(analyze_processes_load(builder));
	for (size_t i = 0; i < builder->process_count; i++)
		TRY(load_process(builder, i));
	TRY(ledger_reader_check(builder->reader));
	TRY(analyze_frames_copy(&builder->stacks, model));
	return analyze_sites_finish(builder, model);
}

struct error *analyze_model_load(struct ledger_reader *reader, struct analyze_model **ret)
{
	struct builder builder = {.reader = reader};
	struct analyze_model *model = calloc(1, sizeof(*model));

	if (!model)
		return error_no_memory();
	struct error *error = build(&builder, model);

	map_index_free(&builder.site_index);
	map_index_free(&builder.size_index);
	ledger_stacks_deinit(&builder.stacks);
	vector_free(&builder.sizes);
	vector_free(&builder.sums);
	model->processes = builder.processes;
	model->process_count = builder.processes ? builder.process_count : 0;
	model->sites = builder.sites.items;
	model->site_count = builder.sites.count;
	model->start_unix_ns = ledger_reader_session(reader)->start_unix_ns;
	if (error) {
		analyze_model_free(model);
		return error;
	}
	*ret = model;
	return NULL;
}

struct error *analyze_model_open(const char *path, struct analyze_model **ret)
{
	struct ledger_reader *reader;

	TRY(ledger_reader_open(path, &reader));
	struct error *error = analyze_model_load(reader, ret);

	ledger_reader_close(reader);
	return error;
}

void analyze_model_free(struct analyze_model *model)
{
	if (!model)
		return;
	for (size_t i = 0; i < model->process_count; i++) {
		struct analyze_process *process = &model->processes[i];

		free(process->exe.bytes);
		free(process->argv.bytes);
		for (size_t j = 0; j < process->loss_count; j++)
			free(process->losses[j].detail.bytes);
		free(process->losses);
	}
	for (size_t i = 0; i < model->module_count; i++)
		free(model->modules[i].path.bytes);
	free(model->processes);
	free(model->sites);
	free(model->sizes);
	free(model->frames);
	free(model->modules);
	free(model);
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

static int compare_stacks(const struct analyze_model *model, uint32_t a, uint32_t b)
{
	while (a != b) {
		const struct analyze_frame *x = &model->frames[a], *y = &model->frames[b];
		int order = x->module == y->module ? 0
						   : compare_texts(&model->modules[x->module].path,
								   &model->modules[y->module].path);

		if (order == 0)
			order = compare_numbers(x->offset, y->offset);
		if (order == 0)
			order = compare_numbers(x->flags, y->flags);
		if (order)
			return order;
		a = x->parent;
		b = y->parent;
		if (a == 0 || b == 0)
			return compare_numbers(a != 0, b != 0);
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
	sum->live_bytes_low += counts->live_bytes_low;
	sum->live_blocks_low += counts->live_blocks_low;
	sum->temporary += counts->temporary;
	sum->lifetime += counts->lifetime;
	sum->moved += counts->moved;
	sum->foreign_frees += counts->foreign_frees;
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
